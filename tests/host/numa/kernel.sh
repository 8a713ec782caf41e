#!/usr/bin/env bash
# kernel.sh FOLDER: fetches a Linux kernel that boots in QEMU from the distribution, once (27 MB), into FOLDER and
# prints its path on standard output. WEIR_NUMA_KERNEL in the environment names another kernel. Exits 77 with a reason
# if there is no kernel.
set -euo pipefail
folder=$1
skip() { echo "skipped: $1" >&2; exit 77; }

if [ -n "${WEIR_NUMA_KERNEL:-}" ]; then
    [ -r "$WEIR_NUMA_KERNEL" ] || skip "WEIR_NUMA_KERNEL is $WEIR_NUMA_KERNEL, which cannot be read"
    echo "$WEIR_NUMA_KERNEL"
    exit
fi
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -s "$folder/vmlinuz" ]; then
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || skip 'no apt-get to fetch a kernel with; set WEIR_NUMA_KERNEL'
    package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image-/ { print $2; exit }')
    [ -n "$package" ] || skip 'apt knows no linux-image-cloud-amd64; set WEIR_NUMA_KERNEL'
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    (cd "$scratch" && apt-get -qq -o APT::Sandbox::User=root download "$package") >"$folder/fetch.log" 2>&1 ||
        skip "apt-get cannot download $package (no network?); set WEIR_NUMA_KERNEL"
    dpkg-deb -x "$scratch/$package"_*.deb "$scratch/tree"
    cp "$scratch"/tree/boot/vmlinuz-* "$folder/vmlinuz.part"
    mv "$folder/vmlinuz.part" "$folder/vmlinuz"
fi
echo "$folder/vmlinuz"
