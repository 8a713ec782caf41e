#!/usr/bin/env bash
# Runs a program of preset arm64 by QEMU.    emulate.sh PROGRAM ARGUMENT...
#   QEMU keeps a record of each page of addresses, used or not. A heap or a host pool reserves 32 GiB, and QEMU would grow to
#   13 GB for it; with a limit of 8 GiB of addresses a heap reserves 4 GiB. The simulators need more than that limit and take
#   their capacity from the environment.
addresses=()
case ${1##*/} in
test_ascendcl_*) ;;
*heap* | *host*) addresses=(-R 8G) ;;
esac
export WEIR_ASCENDCL_CAPACITY=${WEIR_ASCENDCL_CAPACITY:-1GiB} WEIR_EMULATED=1
exec qemu-aarch64-static "${addresses[@]}" -L /usr/aarch64-linux-gnu "$@"
