#!/usr/bin/env bash
# Runs every fuzz harness for some seconds. In `cargo test` the same harnesses run a bounded number of
# times; here each begins with other random input, so that repeated runs find more.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}

# run PACKAGE FILTER TARGET...: every test of that target whose name has the filter in it.
run() {
    local harness
    for harness in $(cargo test -q --release -p "$1" "${@:3}" -- --list "$2" | sed -n 's/: test$//p'); do
        echo "== $harness: $seconds s"
        BOLERO_RANDOM_ITERATIONS=1000000000000 BOLERO_RANDOM_TEST_TIME_MS=$((seconds * 1000)) \
            cargo test -q --release -p "$1" "${@:3}" -- --exact "$harness"
    done
}

run weft-fuzz "" --test fuzz
run weft-proto random_operations --lib
run weft fuzzed --lib
run weft-device fuzzed --lib
