#!/usr/bin/env bash
# Runs a program of preset arm64 or arm64-release by QEMU.    emulate.sh PROGRAM ARGUMENT...
#   QEMU keeps a record of each page of addresses, used or not. A heap or a host pool reserves 32 GiB, and QEMU would grow to
#   13 GB for it; with a limit of 8 GiB of addresses a heap reserves 4 GiB. The simulators need more than that limit and take
#   their capacity from the environment.
addresses=()
export WEIR_ASCENDCL_CAPACITY=${WEIR_ASCENDCL_CAPACITY:-1GiB} WEIR_EMULATED=1
case ${1##*/} in
test_acl_device | test_acl_sleep*) unset WEIR_ASCENDCL_CAPACITY ;; # the tests set their own
test_ascendcl_* | test_acl_*) ;;
*heap* | *host*) addresses=(-R 8G) ;;
esac
exec qemu-aarch64-static "${addresses[@]}" -L "$(dirname "${BASH_SOURCE[0]}")/../../../build/arm64-sysroot" "$@"
