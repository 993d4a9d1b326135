#!/usr/bin/env bash
# Puts what `make build` has built where it will lie: the command into PREFIX/bin, what C and MPI
# programs need into PREFIX/lib, manual pages and completions into PREFIX/share. `make install` and
# packages go by this one way. DESTDIR, if set, stands before PREFIX.
#
# usage: [DESTDIR=FOLDER] scripts/install.sh PREFIX
set -euo pipefail
if [ $# -ne 1 ]; then
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
prefix=$1 to=${DESTDIR:-}$1
weft=$(scripts/weft.sh --path)
built=$(dirname "$weft")
if [ ! -x "$weft" ]; then
    echo "install: there is no $weft: make build" >&2
    exit 1
fi

install -Dm755 "$weft" "$to/bin/weft"
install -Dm755 "$built/libweft_fi.so" "$to/lib/weft/libweft-fi.so"
install -Dm755 "$built/libweft_mpi.so" "$to/lib/weft/libweft-mpi.so"
install -Dm755 "$built/libweft_calls.so" "$to/lib/weft/libweft-calls.so"
# libweft.so is put together anew where it will lie: weft.pc says where that is.
scripts/capi.sh "$built/libweft_c.a" "$to" "$prefix"
"$weft" manual "$to/share"
