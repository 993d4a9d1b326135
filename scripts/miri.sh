#!/usr/bin/env bash
# Miri on the crates without system calls. It needs a nightly toolchain, which nothing else does.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustup toolchain list 2>/dev/null | grep -q nightly; then
    echo "miri: install a nightly toolchain first: rustup toolchain install nightly --component miri,rust-src" >&2
    exit 1
fi
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    rustup component add miri rust-src --toolchain nightly
fi
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"
cargo +nightly miri test -p weft-wire --lib
cargo +nightly miri test -p weft-ring
cargo +nightly miri test -p weft-proto --lib matching
