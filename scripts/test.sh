#!/usr/bin/env bash
# All checks, in the order in which they fail soonest. Every step runs even when one before it has
# failed; the last lines say what failed and which tests were skipped, and why.
set -uo pipefail
cd "$(dirname "$0")/.."

target=$(cargo metadata --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
log=$target/test.log
mkdir -p "$target"
: >"$log"
failed=()

# step NAME COMMAND...: runs a step, shows it, and keeps what it says.
step() {
    local name=$1
    shift
    local begun=$SECONDS
    printf '\n== %s\n' "$name"
    if "$@" 2>&1 | tee -a "$log" | quiet; then
        printf -- '-- %s: good, %d s\n' "$name" $((SECONDS - begun))
    else
        failed+=("$name")
        printf -- '-- %s: FAILED, %d s\n' "$name" $((SECONDS - begun))
    fi
}

# Leaves out what passing tests print; the whole is in the log.
quiet() {
    awk '
        /^successes:$/ { hidden = 1 }
        /^failures:$/ || /^test result:/ || /^running [0-9]+ test/ { hidden = 0 }
        !hidden { print; fflush() }
    '
}

models() {
    RUSTFLAGS="--cfg loom" cargo test --target-dir "$target/loom" -p weft-ring -p weft-sys --release --test loom
}
# Says that a step is left out for want of a tool that not every machine can have. That is no test
# skipped: what the step looks at is tested here in other ways.
left_out() { printf 'LEFT OUT: %s\n' "$*"; }
# The standard library of the target is all that it takes; nothing is linked or run.
aarch64() {
    local target=aarch64-unknown-linux-gnu
    if ! rustup target list --installed 2>/dev/null | grep -qx "$target"; then
        left_out "whether all compiles for aarch64: rustup target add $target"
        return 0
    fi
    cargo check --target "$target" --lib -p weft-ofi -p weft-mpi -p weft-calls -p weft-capi
}
# Shows what the tests have said meanwhile.
told() { cat "$target/tests.log" && return "$1"; }
docs() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps; }

# Most tests wait for one thing or another: a third of two processors is all that they use.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((3 * $(nproc)))}
# What would make the next build shorter only makes this one longer.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

step "format" cargo fmt --all --check
step "clippy" cargo clippy --workspace --all-targets -- -D warnings
# These are no test's dependency, but MPI and C programs in tests load them.
step "libraries for MPI and C" cargo build -p weft-ofi -p weft-mpi -p weft-calls -p weft-capi
step "building tests" cargo test --workspace --no-run
# They mostly wait, so the next steps run meanwhile.
cargo test --workspace --no-fail-fast -- --show-output >"$target/tests.log" 2>&1 &
tests=$!
step "models of rings, doorbells and the lock (loom)" models
step "aarch64" aarch64
step "documentation" docs
wait "$tests"
step "tests" told $?

# sum passed|failed: that number over all test binaries.
sum() {
    awk -v what="$1" '
        /^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ what) n += $(i - 1) }
        END { print n + 0 }
    ' "$log"
}
skipped=$(grep -c 'SKIPPED:' "$log")
printf '\n'
grep -hE 'SKIPPED:|LEFT OUT:' "$log" | sort | uniq -c
printf '%d passed, %d failed, %d skipped in %d min %d s (all of it: %s)\n' \
    "$(sum passed)" "$(sum failed)" "$skipped" $((SECONDS / 60)) $((SECONDS % 60)) "$log"
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "$(printf '%s; ' "${failed[@]}")"
    exit 1
fi
if [ -n "${CI:-}" ] && [ "$CI" != false ] && [ "$skipped" -gt 0 ]; then
    printf 'FAILED: a test was skipped, which CI does not allow\n'
    exit 1
fi
