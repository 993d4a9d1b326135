#!/usr/bin/env bash
# Records what programs of examples/mpi/programs do on two nodes of a lab, as `weft sim tune` plays it:
# writes crates/sim/src/tune/recorded/NAME.txt. Needs the built `weft`, and MPICH in .venv.
#
# usage: scripts/record-load.sh
set -euo pipefail
cd "$(dirname "$0")/.."
to=crates/sim/src/tune/recorded
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpicc=$PWD/.venv/mpich/bin/mpicc
make -s -C examples/mpi MPICC="$mpicc" OUT="$work"
"$mpicc" -O2 -shared -fPIC tests/mpi/record.c -o "$work/record.so"

# record NAME PROGRAM WORD: one size of one mode, for a millisecond or a little more.
record() {
    RECORD_TO=$work/$1 ${WEFT:-scripts/weft.sh} mpirun --mpi mpich -n 2 --lab nodes=2 -- \
        env LD_PRELOAD="$work/record.so" "$work/$2" weft 1 "$3" >/dev/null
    mkdir -p "$to"
    cat "$work/$1.0" "$work/$1.1" >"$to/$1.txt"
    wc -l "$to/$1.txt"
}

record heat heat plain:large
record heat-overlap heat overlap:large
record cg-small cg small
record cg-large cg large
record transpose transpose large
record sort sort large
