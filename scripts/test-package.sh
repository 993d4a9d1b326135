#!/usr/bin/env bash
# The archive for other systems and the Debian package as a user gets them, in a fresh Debian of this
# machine's version. The archive is unpacked and used from its folder; the package is installed, tried
# (first message on two virtual nodes, an MPI program, manual, completions, a user with the right to
# raw sockets), and removed, after which nothing of it may be left. `make test-mpi` runs it.
# MPI_PROGRAM may name a program for Debian's Open MPI, which is run in there as well.
#
# usage: scripts/test-package.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --inside ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "test-package: a Debian of its own takes root rights" >&2
        exit 1
    fi
    root=$(mktemp -d)
    trap 'rm -rf --one-file-system "$root"' EXIT
    # What is mounted in there goes with the namespace, however this ends.
    unshare --mount --pid --mount-proc --fork --kill-child "$0" --inside "$root"
    exit
fi
root=$2/debian
export LC_ALL=C.UTF-8

say() { printf 'test-package: %s\n' "$*"; }
fail() {
    say "FAILED: $*"
    exit 1
}
# in_there COMMAND...: by root, in the new Debian.
in_there() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
# said WORDS COMMAND...: the command ends well, and what it says has these words.
said() {
    local words=$1 output
    shift
    output=$(in_there "$@" 2>&1) || fail "$*: $output"
    grep -qF -- "$words" <<<"$output" || fail "$*: no '$words' in: $output"
    say "good: $*"
}
# All files but those that are the package manager's own, or a cache's.
files() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./var/lib/dpkg \
        -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log -o -path ./tmp \
        -o -path ./root -o -path ./run \) -prune -o -print | sort)
}

# Both lay their files out in the same place, one after the other.
archive=$(scripts/package.sh tarball | tail -1)
scripts/package.sh deb
version=$("$(scripts/weft.sh --path)" --version | cut -d' ' -f2)
deb=$(ls "out/weft_${version}"-*_"$(dpkg --print-architecture)".deb)
say "$deb: $(stat -c %s "$deb") bytes"

. /etc/os-release
sources=(/etc/apt/sources.list.d/*.sources)
[ -e "${sources[0]}" ] || sources=(/etc/apt/sources.list)
say "a fresh Debian $VERSION_CODENAME"
mmdebstrap --quiet --variant=minbase --include=man-db,bash-completion,pkg-config,openmpi-bin \
    "$VERSION_CODENAME" "$root" - < <(cat "${sources[@]}") || fail "no fresh Debian could be made"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"

# The archive, before anything of Weft is installed: all that is used is in its folder.
say "$archive: $(stat -c %s "$archive") bytes"
tar -xzf "$archive" -C "$root/tmp"
unpacked=/tmp/$(basename "$archive" .tar.gz)
said "weft $version" "$unpacked/bin/weft" --version --verbose
said '"bench":"lat"' "$unpacked/bin/weft" run -n 2 -- \
    "$unpacked/bin/weft" bench lat --json --bytes 8 --ms 20
said "-I$unpacked/" env PKG_CONFIG_PATH="$unpacked/lib/pkgconfig" pkg-config --cflags weft
said 'libweft.so.0' env PKG_CONFIG_PATH="$unpacked/lib/pkgconfig" bash -c \
    'ls "$(pkg-config --variable=libdir weft)" && ls "$(pkg-config --variable=includedir weft)/weft.h"'
grep -qF 'libgcc_s.so.1' "$root$unpacked/README" && ! grep -q '@[A-Z]*@' "$root$unpacked/README" ||
    fail "README of the archive: what it needs is not said: $(cat "$root$unpacked/README")"
rm -rf "${root:?}$unpacked"

cp "$deb" "$root/tmp/weft.deb"
files >"$2/before"

# The first of two commands that a user types: the second is the next but one.
in_there apt-get install -y --no-install-recommends /tmp/weft.deb >"$2/apt.log" 2>&1 ||
    fail "it cannot be installed: $(tail -5 "$2/apt.log")"
said "weft $version" weft --version --verbose
said '"bench":"lat"' weft run -n 2 --lab nodes=2 -- weft bench lat --json --bytes 8 --ms 20

said 'libweft.so.0' ldconfig -p
# What else a user finds on the disk, and what an administrator reads.
said 'weft_version' cat "/usr/include/weft.h"
for library in libweft-fi.so libweft-mpi.so libweft-calls.so; do
    said "$library" ls -1 "/usr/lib/weft/$library"
done
said 'setpriv' cat /usr/share/doc/weft/README.Debian
said 'net.core.' cat /usr/share/doc/weft/examples/60-weft.conf
said "$version" pkg-config --modversion weft
for page in weft weft-run weft-lab-up 'weft-mpi' 'weft-environment'; do
    said "$page" man -w "$page"
    said 'DESCRIPTION' man "$page"
done
# As bash does when TAB is pressed behind "weft mp".
said 'mpirun' bash -c '. /usr/share/bash-completion/bash_completion
    _completion_loader weft
    COMP_WORDS=(weft mp) COMP_CWORD=1
    _weft weft mp weft
    echo "${COMPREPLY[@]}"'
# zsh and fish look in these folders of Debian's.
said '#compdef weft' head -1 /usr/share/zsh/vendor-completions/_weft
said 'complete -c weft' cat /usr/share/fish/vendor_completions.d/weft.fish
# The right to raw sockets as README.Debian gives it. Whoever has it may have a look with it.
without=$(in_there setpriv --reuid nobody --regid nogroup --clear-groups weft info --json)
with=$(in_there setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps +net_raw \
    --ambient-caps +net_raw weft info --json)
lacks() { grep -c 'CAP_NET_RAW' <<<"$1" || true; }
[ "$(lacks "$with")" -eq 0 ] || fail "CAP_NET_RAW is missing though it was given: $with"
[ "$(lacks "$without")" -ge 1 ] || fail "nothing says that CAP_NET_RAW is missing: $without"
say "good: raw sockets: missing $(lacks "$without") times without the right, never with it"
if [ -n "${MPI_PROGRAM:-}" ]; then
    cp "$MPI_PROGRAM" "$root/tmp/program"
    in_there weft mpirun -n 2 --lab nodes=2 -- /tmp/program x 20 >"$2/mpi.log" 2>&1 ||
        fail "an MPI program on Weft: $(cat "$2/mpi.log")"
    say "good: weft mpirun: $(tail -1 "$2/mpi.log")"
else
    say "SKIPPED: the provider in the package: MPI_PROGRAM names no program for Debian's Open MPI"
fi

in_there apt-get purge -y weft >"$2/apt.log" 2>&1 || fail "it cannot be removed: $(cat "$2/apt.log")"
files >"$2/after"
left=$(comm -13 "$2/before" "$2/after")
[ -z "$left" ] || fail "these files are left: $left"
[ -z "$(in_there dpkg -L weft 2>/dev/null)" ] || fail "dpkg still knows files of it"
say "good: nothing is left"
