#!/usr/bin/env bash
# vm.sh FOLDER NODES PROGRAM...: runs programs in an emulated machine with NODES (2 to 4) NUMA nodes, each with one processor,
# 384 MiB and 8 huge pages, as far from each other as on a Kunpeng 920; a PCI device (bus 0x41) at node 1 and, with four
# nodes, one (bus 0x81) at node 3. No KVM and no root. Passes when every program exits 0; 77 with a reason when there is no
# QEMU or no kernel. The console is kept in FOLDER/NODES-nodes.log.
set -euo pipefail
folder=$1 nodes=$2
shift 2
here=$(dirname "${BASH_SOURCE[0]}")
log=$folder/$nodes-nodes.log
skip() { echo "skipped: $1"; exit 77; }

for program in "$@"; do
    case $(file -bL "$program" 2>/dev/null || echo x86-64) in *x86-64*) ;; *) skip "$program is not for x86-64" ;; esac
done
for tool in qemu-system-x86_64 busybox cpio gzip flock; do
    command -v $tool >/dev/null || skip "no $tool (script/bootstrap numa)"
done
mkdir -p "$folder"
kernel=$("$here/kernel.sh" "$folder") || exit $?
"$here/initrd.sh" "$folder/$nodes-nodes.img" "$@"

last=$((nodes - 1))
machine=(-accel tcg,thread=multi -machine q35 -cpu max -nographic -no-reboot -net none
    -smp "$nodes,sockets=$nodes,cores=1,threads=1" -m "$((384 * nodes))M")
for node in $(seq 0 $last); do
    machine+=(-object "memory-backend-ram,size=384M,id=m$node" -numa "node,nodeid=$node,cpus=$node,memdev=m$node")
done
for distance in 0:1:16 0:2:32 0:3:33 1:2:25 1:3:32 2:3:16; do
    IFS=: read -r from to value <<<"$distance"
    [ "$to" -gt $last ] ||
        machine+=(-numa "dist,src=$from,dst=$to,val=$value" -numa "dist,src=$to,dst=$from,val=$value")
done
for node in 1 3; do
    [ $node -gt $last ] ||
        machine+=(-device "pxb-pcie,id=host$node,bus_nr=$(((node + 1) * 32)),numa_node=$node,bus=pcie.0"
            -device "pcie-root-port,id=port$node,bus=host$node,chassis=$node" -device "edu,bus=port$node")
done
huge=$(seq -s, 0 $last | sed 's/,/:8,/g; s/$/:8/')

"$here/boot.sh" "$log" 380 "$@" -- qemu-system-x86_64 "${machine[@]}" -kernel "$kernel" \
    -initrd "$folder/$nodes-nodes.img" -append "console=ttyS0 quiet panic=-1 hugepages=$huge WEIR_NUMA_NODES=$nodes"
