#!/usr/bin/env bash
# Builds the rings, the frames and the protocol for aarch64, and runs their tests there, by qemu's
# user mode. It has the processor's instructions and byte order, not its memory: orders that x86
# gives for nothing are tested by `make loom`.
#
# usage: scripts/arm.sh [ARGUMENT of `cargo test` ...]
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=aarch64-unknown-linux-gnu

if ! rustup target list --installed 2>/dev/null | grep -qx "$TARGET"; then
    echo "arm: the standard library for $TARGET is missing: rustup target add $TARGET" >&2
    exit 1
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
exec cargo test --target "$TARGET" -p weft-ring -p weft-wire -p weft-proto "$@"
