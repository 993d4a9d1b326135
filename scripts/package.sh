#!/usr/bin/env bash
# Packages of what `make build` has built, in out/: a Debian package, by cargo-deb, and an archive
# for other systems. Nothing is built here.
#
# All of a package's libraries but the C library and GCC's libgcc_s are in its files. The command is no static program,
# though it could be one: `weft mpirun` loads the libfabric of the MPI library, to see whether that
# takes the provider, and a static program cannot load what is made for another C library.
#
# usage: scripts/package.sh deb|tarball
set -euo pipefail
cd "$(dirname "$0")/.."

weft=$(scripts/weft.sh --path)
# Where crates/cli/Cargo.toml has cargo-deb look.
stage=out/package
version=$("$weft" --version | cut -d' ' -f2)

# The files as they will lie in PREFIX, without what only a debugger reads.
staged() {
    local prefix=$1 root=$PWD/$stage
    rm -rf "$stage"
    DESTDIR=$root scripts/install.sh "$prefix"
    root+=$prefix
    strip --strip-debug "$root"/bin/weft "$root"/lib/weft/*.so "$root/lib/libweft.so.0"
    only_usual_libraries "$root"/bin/weft "$root"/lib/weft/*.so "$root/lib/libweft.so.0"
    install -Dm644 packaging/60-weft.conf "$root/share/doc/weft/examples/60-weft.conf"
    install -m644 README.md CHANGELOG.md "$root/share/doc/weft"
    cp -r docs "$root/share/doc/weft/docs"
    chmod -R u=rwX,go=rX "$root"
}

# only_usual_libraries FILE...: they need no library but those that every system has.
only_usual_libraries() {
    local file odd
    for file in "$@"; do
        odd=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
            grep -vE '^(lib(c|m|gcc_s)\.so\.[0-9]+|ld-linux.*\.so\.[0-9]+)$' || true)
        if [ -n "$odd" ]; then
            echo "package: $file needs $odd, which not every system has" >&2
            return 1
        fi
    done
}

# The oldest version of the C library that all of these files work with.
oldest_glibc() {
    objdump -T "$@" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | cut -d_ -f2
}

deb() {
    if ! command -v cargo-deb >/dev/null; then
        echo "package: cargo-deb is not installed: scripts/setup.sh package" >&2
        return 1
    fi
    staged /usr
    local share=$stage/usr/share
    # Where Debian's zsh looks.
    mkdir -p "$share/zsh/vendor-completions"
    mv "$share/zsh/site-functions/_weft" "$share/zsh/vendor-completions/_weft"
    rmdir "$share/zsh/site-functions"
    install -m644 packaging/README.Debian "$share/doc/weft/README.Debian"
    mv "$share/doc/weft/CHANGELOG.md" "$share/doc/weft/changelog"
    mkdir -p out
    cargo deb -q -p weft-cli --no-build --no-strip -o out
}

tarball() {
    local name
    name=weft-$version-$(uname -m)-linux
    staged "/$name"
    sed "s/@GLIBC@/$(oldest_glibc "$stage/$name"/bin/* "$stage/$name"/lib/*.so.0 \
        "$stage/$name"/lib/weft/*)/; s/@VERSION@/$version/" packaging/README.tarball \
        >"$stage/$name/README"
    cp LICENSE-MIT LICENSE-APACHE "$stage/$name"
    # Wherever it is unpacked.
    sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$stage/$name/lib/pkgconfig/weft.pc"
    mkdir -p out
    # The same files give the same archive.
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='@0' -C "$stage" -czf \
        "out/$name.tar.gz" "$name"
    echo "out/$name.tar.gz"
}

case ${1:-} in
deb | tarball) "$1" ;;
*)
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
    ;;
esac
