#!/usr/bin/env bash
# Weft over the drivers of network cards: e1000e, virtio-net, vmxnet3 and rtl8139, in small machines
# that QEMU plays, cabled to each other or to a switch. Nothing of theirs leaves this machine.
#
# usage: scripts/test-nic.sh [WORD...]     steps whose name has one of the words in it, or all
#        scripts/test-nic.sh --figures     MPICH on Weft beside MPICH over TCP, for each card
#        scripts/test-nic.sh --tune        MPICH on Weft by how long e1000e waits to interrupt
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target=$(dirname "$(dirname "$(scripts/weft.sh --path)")")
tests/nic/image.sh "$target/nic"
exec python3 tests/nic/cards.py "$target/nic" "$@"
