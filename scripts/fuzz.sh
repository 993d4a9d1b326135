#!/usr/bin/env bash
# Runs every fuzz harness for some seconds. In `cargo test` the same harnesses run a bounded number of
# times; here each begins with other random input, so that repeated runs find more.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
harnesses=$(cargo test -q --release -p weft-fuzz --test fuzz -- --list | sed -n 's/: test$//p')
count=$(wc -l <<<"$harnesses")
echo "$count harnesses, $seconds s each"
for harness in $harnesses; do
    echo "== $harness"
    BOLERO_RANDOM_ITERATIONS=1000000000 BOLERO_RANDOM_TEST_TIME_MS=$((seconds * 1000)) \
        cargo test -q --release -p weft-fuzz --test fuzz -- --exact "$harness"
done
