#!/usr/bin/env bash
# weir topo --acl: the devices of the ACL runtime, their PCI addresses and nodes, and every way in which it cannot tell.
#   topo_acl_test.sh WEIR SIMULATED_RUNTIME
set -uo pipefail
weir=$1 folder=$(dirname "$2") failures=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export WEIR_ASCENDCL_REPORT=none WEIR_ASCENDCL_DEVICES=3
complain() { echo "$1: $(cat "$scratch/out")" >&2; failures=$((failures + 1)); }
topo() { "$weir" topo "$@" >"$scratch/out" 2>&1; }
shows() { grep -qE -- "$1" "$scratch/out" || complain "no line like '$1'"; }

here=$(ls /sys/bus/pci/devices 2>/dev/null | grep -E '^.{12}$' | head -1)
export LD_LIBRARY_PATH=$folder
WEIR_ASCENDCL_PCI_BUS_IDS=ffff:c1:00.0,,${here:-ffff:c2:00.0} topo --acl || complain 'topo --acl fails'
shows '^devices of ACL$'
shows '^  0   ffff:c1:00.0  the machine shows no such device$'
shows '^  1   not on PCI '
[ -z "$here" ] || shows "^  2   $here  (node [0-9]+|as near to all nodes)"
WEIR_ASCENDCL_PCI_BUS_IDS=ffff:c1:00.0 topo --acl --json || complain 'topo --acl --json fails'
shows '"acl_devices"'
shows '"bus_id": "ffff:c1:00.0"'
shows '"bus_id": null'
topo || complain 'topo fails'
grep -q 'devices of ACL' "$scratch/out" && complain 'topo without --acl asks the runtime'
WEIR_ASCENDCL_FAULTS=aclrtGetDeviceCount:1 topo --acl && complain 'a failing runtime is no error'
shows 'aclrtGetDeviceCount failed with [0-9]+'
WEIR_ASCENDCL_FAULTS=aclrtDeviceGetPCIBusId:2=507899 topo --acl && complain 'a failing call is no error'
shows 'aclrtDeviceGetPCIBusId failed with 507899'

echo 'int aclrtGetDeviceCount(unsigned *count) { return *count = 0; }' >"$scratch/old.c" # CANN before 9.2
if ${CC:-cc} -shared -fPIC "$scratch/old.c" -o "$scratch/libascendcl.so" 2>/dev/null; then
    LD_LIBRARY_PATH=$scratch topo --acl && complain 'an old runtime is no error'
    shows 'libascendcl.so has no aclrtDeviceGetPCIBusId'
fi
LD_LIBRARY_PATH= topo --acl && complain 'no runtime is no error'
shows 'libascendcl.so'
[ $failures = 0 ] || exit 1
echo 'topo --acl: all as documented'
