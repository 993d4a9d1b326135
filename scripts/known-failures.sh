# shellcheck shell=bash
# What tests/mpi/known-failures.txt leaves out, run without Weft: on the library's own transport, by
# libfabric's own tcp provider, and within a node by its shm provider (MPICH), which is as quick as
# Weft there, or its sockets provider (Intel MPI), which like Weft needs no addresses. An exception is right where it fails on one of them; where it passes each time on all,
# it hides what may be Weft's. Part of `scripts/test-mpi.sh --known`.

# Runs of each on each transport that must all be good before it counts as one that passes.
KNOWN_RUNS=${KNOWN_RUNS:-3}
# A run that takes longer hangs.
KNOWN_S=${KNOWN_S:-90}

# plain TRANSPORT MPI OPTIONS-OF-MPIRUN...: one run without Weft.
plain() {
    local transport=$1 mpi=$2 options=() word
    shift 2
    if [ "$transport" = shm ]; then
        # By MPICH's launcher itself: here it is an MPICH like any other.
        for word in "$@"; do [ "$word" = -- ] || options+=("$word"); done
        timeout -k 10 "$KNOWN_S" ".venv/$mpi/bin/mpiexec.hydra" -genv FI_PROVIDER shm \
            -genv MPIR_CVAR_CH4_NETMOD ofi -genv MPIR_CVAR_NOLOCAL 1 "${options[@]}"
        return
    fi
    if [ "$transport" = sockets ]; then
        # Intel's libfabric has none; the one that is installed has.
        for word in "$@"; do [ "$word" = -- ] || options+=("$word"); done
        timeout -k 10 "$KNOWN_S" env I_MPI_FABRICS=ofi I_MPI_OFI_PROVIDER=sockets \
            FI_PROVIDER=sockets FI_SOCKETS_IFACE=lo \
            I_MPI_OFI_LIBRARY="$(ldconfig -p | awk '/libfabric.so.1 / { print $NF; exit }')" \
            ".venv/$mpi/bin/mpiexec.hydra" "${options[@]}"
        return
    fi
    if [ "$transport" = tcp ]; then
        # MPICH's own transport between nodes is this one; within a node it is its shared memory.
        case $mpi in
        mpich) export MPIR_CVAR_NOLOCAL=1 ;;
        openmpi) options=(--mpi-args="--mca pml cm --mca mtl ofi
            --mca opal_common_ofi_provider_include tcp;ofi_rxm,tcp") ;;
        openmpi4) options=(--mpi-args="--mca pml cm --mca mtl ofi
            --mca mtl_ofi_provider_include tcp;ofi_rxm,tcp") ;;
        esac
    fi
    timeout -k 10 $((KNOWN_S + 20)) "$weft" mpirun --timeout "$KNOWN_S" --transport own \
        "${options[@]}" "$@"
}

# excepted TRANSPORT MPI SUITE NAME: the test alone, as the suites run it on Weft.
excepted() (
    transport=$1 mpi=$2 suite=$3 name=$4
    options=()
    case $suite in *-lab) options+=(--lab nodes=2) ;; esac
    case $suite in
    stress)
        plain "$transport" "$mpi" -n 4 "${options[@]}" -- \
            "$out/stress-$mpi" --seconds 10 --limit 60 --only "$name"
        ;;
    collectives-lab)
        # With windows, which is what is left out.
        plain "$transport" "$mpi" -n 4 --lab nodes=4 -- \
            "$out/collectives-$mpi" --rounds 60 --threads
        ;;
    halo-lab)
        plain "$transport" "$mpi" -n 2 "${options[@]}" -- \
            "$out/examples-$mpi/halo" x 20 "$name:small"
        ;;
    mpi4py*)
        [ "$mpi" = openmpi ] && options+=(--mpi-args="--map-by :OVERSUBSCRIBE")
        plain "$transport" "$mpi" -n 2 "${options[@]}" -- ".venv/$mpi/bin/python" \
            .venv/mpi4py/test/main.py -v --no-builddir -k "$name"
        ;;
    esac
)

# known_failures: goes through the list; fails if an exception in it passes everywhere.
known_failures() {
    local mpi suite name why transport transports run where wrong=0 own=$out/known.log
    while read -r mpi suite name why; do
        case $mpi in '' | '#'*) continue ;; esac
        wanted "$mpi $suite $name" || continue
        where=
        transports=(own tcp)
        case "$mpi $suite" in
        "impi "*-lab) transports=(own) ;;
        "impi "*) transports=(sockets) ;;
        *-lab) ;;
        "mpich "*) transports+=(shm) ;;
        esac
        for transport in "${transports[@]}"; do
            for run in $(seq "$KNOWN_RUNS"); do
                # Its standard input is not the list.
                if ! excepted "$transport" "$mpi" "$suite" "$name" >"$own" 2>&1 </dev/null; then
                    where="$transport, run $run"
                    break 2
                fi
                { echo "== $mpi $suite $name, $transport" && cat "$own"; } >>"$log"
                if grep -q '^Ran 0 tests' "$own"; then
                    where= && break 2
                fi
            done
        done
        { echo "== $mpi $suite $name: ${where:-passes}" && cat "$own"; } >>"$log"
        if [ -n "$where" ]; then
            say "fails without Weft ($where): $mpi $suite $name"
            grep -aE '^(FAIL|ERROR):|stress: |collectives: |took longer' "$own" | sort -u |
                head -n 3 | sed 's/^/    /'
        else
            wrong=1
            say "PASSES without Weft: $mpi $suite $name ($why)"
        fi
    done <tests/mpi/known-failures.txt
    return $wrong
}
