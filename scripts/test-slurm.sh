#!/usr/bin/env bash
# Weft under Slurm, run on the first node of `scripts/slurm.sh`: native programs by each service that
# srun has, MPI programs by batch scripts as docs/mpi.md shows them, and `weft mpirun` in an
# allocation, where launchers would by themselves go elsewhere than it has looked.
#
# usage: scripts/slurm.sh scripts/test-slurm.sh FOLDER MPI...: FOLDER has what test-mpi.sh compiles
set -uo pipefail
out=$1
shift
weft=${WEFT:-$("$(dirname "$0")/weft.sh" --path)}
wheels=$(cd "$(dirname "$0")/../.venv" && pwd)
failed=0
# So long only what hangs takes.
LIMIT_S=150

# expect NAME good|bad PATTERN COMMAND...: its status, and a line that it must say.
expect() {
    local name=$1 wanted=$2 pattern=$3 said status
    shift 3
    said=$(timeout -k 10 "$LIMIT_S" "$@" 2>&1)
    status=$?
    if [ "$([ $status = 0 ] && echo good || echo bad)" = "$wanted" ] && grep -q -- "$pattern" <<<"$said"; then
        echo "good    $name"
    else
        failed=1
        echo "FAILED  $name (status $status, wanted: $wanted, with \"$pattern\"):"
        tail -n 12 <<<"$said"
    fi
}

barrier=("$weft" bench barrier --work 0)
expect "native, pmi2 as PMI-1" good '^auto *5 ' srun -N2 -n5 --mpi=pmi2 "${barrier[@]}"
expect "native, pmi2" good '^auto *5 ' env WEFT_WIREUP=pmi2 srun -N2 -n5 --mpi=pmi2 "${barrier[@]}"
# More than once: what some node had not got yet after a fence was found by some runs only.
for n in 2 3 4 5; do
    expect "native, pmix, $n ranks" good "^auto *$n " srun -N2 -n$n --mpi=pmix "${barrier[@]}"
done
expect "native, one node of two" good '^auto *3 ' srun -N1 -n3 --mpi=pmix "${barrier[@]}"
expect "native, none" bad 'start them with `srun --mpi=pmi2`' srun -N2 -n2 --mpi=none "${barrier[@]}"

# batch FAMILY OPTIONS-OF-ENV SERVICE COMMAND...: a script as in docs/mpi.md.
batch() {
    cat >"$out/slurm.batch" <<-END
		#!/bin/sh
		#SBATCH --nodes=2 --ntasks-per-node=2
		eval "\$("$weft" env --mpi $1 $2)"
		export WEFT_JOB_KEY=\$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')
		srun --mpi=$3 ${*:4}
	END
}
submit='sbatch --wait -o "$1/slurm.out" "$1/slurm.batch"; status=$?; cat "$1/slurm.out"; exit $status'

for mpi in "$@"; do
    family=${mpi%4} how=pmix there=(env "PATH=$wheels/$mpi/bin:$PATH")
    [ "$mpi" != mpich ] || how=pmi2
    [ "$mpi" = "$family" ] || there=(env PATH=/usr/bin:/bin)
    known=$(dirname "$0")/../tests/mpi/known-failures.txt
    left=$(sed -n "s/^$mpi stress \([a-z_]*\).*/\1/p" "$known" | paste -sd,)
    batch "$family" "" $how "$out/stress-$mpi" --seconds 5 --limit 100 ${left:+--not "$left"}
    # Four ranks, not four jobs of one.
    expect "$mpi, a batch script" good 'stress: good: .* 4 ranks' \
        "${there[@]}" sh -c "$submit" sh "$out"
    batch "$family" --collectives $how "$out/collectives-$mpi" --seed "$RANDOM" --rounds 20 --weft 100
    expect "$mpi, collectives" good 'collectives: good' "${there[@]}" sh -c "$submit" sh "$out"
    # Each node has room for four, so launchers would have taken both.
    rm -f "$out/slurm.where"
    expect "$mpi, weft mpirun in an allocation" good '--hosts names those' \
        "${there[@]}" salloc -N2 --ntasks-per-node=4 "$weft" mpirun -n 8 --mpi "$family" -- \
        sh -c "hostname >>$out/slurm.where; exec $out/steps-$mpi 100"
    expect "$mpi, all of it here" good '^ *8 node0$' uniq -c "$out/slurm.where"
    expect "$mpi, a lab in an allocation" good '^@0 done' \
        salloc -N2 --ntasks-per-node=1 "$weft" mpirun -n 2 --lab nodes=2 -- "$out/steps-$mpi" 100
done
exit $failed
