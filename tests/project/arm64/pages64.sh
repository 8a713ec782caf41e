#!/usr/bin/env bash
# pages64.sh FOLDER SYSROOT PROGRAM...: runs programs for ARM64 in an emulated machine whose pages are 64 KiB, with two
# processors and 2 GiB. No KVM and no root. Passes when every program exits 0; 77 with a reason when there is no QEMU or
# no kernel. The console is kept in FOLDER/pages64.log.
set -euo pipefail
folder=$1 sysroot=$2
shift 2
here=$(dirname "${BASH_SOURCE[0]}")
for tool in qemu-system-aarch64 cpio gzip readelf flock; do
    command -v $tool >/dev/null || { echo "skipped: no $tool (script/bootstrap arm64)"; exit 77; }
done
kernel=$("$here/kernel.sh" "$folder") || exit $?
BUSYBOX=$sysroot/bin/busybox LIBRARIES="$sysroot/lib/aarch64-linux-gnu $sysroot/usr/lib/aarch64-linux-gnu" \
    "$here/../numa/initrd.sh" "$folder/pages64.img" "$@"
"$here/../numa/boot.sh" "$folder/pages64.log" 840 "$@" -- qemu-system-aarch64 -accel tcg,thread=multi -machine virt \
    -cpu max,pauth-impdef=on -nographic -no-reboot -net none -smp 2 -m 2048M -kernel "$kernel" \
    -initrd "$folder/pages64.img" -append "console=ttyAMA0 quiet panic=-1"
