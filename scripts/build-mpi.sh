#!/usr/bin/env bash
# Builds what `scripts/test-mpi.sh` runs, optimized: by one command, for cargo compiles what a
# program alone takes in another form than what libraries take as well.
#
# usage: scripts/build-mpi.sh [OPTION OF CARGO BUILD...]
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo build --release -p weft-cli -p weft-ofi -p weft-mpi -p weft-calls -p weft-capi \
    -p weft-tests --lib --bin weft --bin test-rank "$@"
