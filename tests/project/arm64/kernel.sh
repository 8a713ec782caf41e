#!/usr/bin/env bash
# kernel.sh FOLDER: fetches a Linux kernel for ARM64 with pages of 64 KiB, once (18 MB), into FOLDER and prints its path
# on standard output. Debian has none; this one is Ubuntu 26.04's, known by its hash. WEIR_ARM64_KERNEL in the
# environment names another kernel (an Image). Exits 77 with a reason if there is no kernel.
set -euo pipefail
folder=$1
package=http://archive.ubuntu.com/ubuntu/pool/main/l/linux-signed/linux-image-7.0.0-14-generic-64k_7.0.0-14.14_arm64.deb
hash=5b0ea575e7d6aa4da56f3d97db1af18aac31f2f2b5e24b1df8499961f7ea683d
skip() { echo "skipped: $1; set WEIR_ARM64_KERNEL" >&2; exit 77; }

if [ -n "${WEIR_ARM64_KERNEL:-}" ]; then
    [ -r "$WEIR_ARM64_KERNEL" ] || skip "WEIR_ARM64_KERNEL is $WEIR_ARM64_KERNEL, which cannot be read"
    echo "$WEIR_ARM64_KERNEL"
    exit
fi
for tool in curl dpkg-deb aarch64-linux-gnu-objcopy zstd; do
    command -v $tool >/dev/null || skip "no $tool to fetch a kernel with"
done
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -s "$folder/Image" ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    curl -fsS --max-time 600 -o "$scratch/deb" "$package" 2>"$folder/fetch.log" || skip "cannot download $package"
    echo "$hash  $scratch/deb" | sha256sum --quiet -c >>"$folder/fetch.log" 2>&1 || skip "$package has another hash"
    dpkg-deb -x "$scratch/deb" "$scratch/tree"
    # The file is a boot loader with the kernel in a section; the kernel is packed too. At 8 and 12 of its head are the
    # place and the length of the packed part.
    aarch64-linux-gnu-objcopy -O binary -j .linux "$scratch"/tree/boot/vmlinuz-* "$scratch/kernel"
    read -r place length < <(od -An -tu4 -j8 -N8 "$scratch/kernel")
    dd if="$scratch/kernel" iflag=skip_bytes,count_bytes skip="$place" count="$length" status=none bs=1M |
        zstd -dqc >"$folder/Image.part"
    mv "$folder/Image.part" "$folder/Image"
fi
echo "$folder/Image"
