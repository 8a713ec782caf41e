#!/usr/bin/env bash
# The libraries that weir's tests and the weir command link, for ARM64, unpacked into a folder. They come from the package
# source of this machine by an apt with folders of its own: nothing is installed, and this machine's apt learns of no other
# architecture. libc comes with the cross compiler.
#   sysroot.sh DIR      exits with 77 and a reason if a package cannot be fetched
set -euo pipefail
dir=$1
packages=(libcmocka0 libcmocka-dev zlib1g zlib1g-dev liblzma5 liblzma-dev libjansson4 libjansson-dev libsqlite3-0 libsqlite3-dev
    busybox-static)
skip() { echo "skipped: $*"; exit 77; }
[ ! -e "$dir/complete" ] || exit 0
command -v apt-get >/dev/null || skip "no apt-get to fetch libraries for ARM64"
rm -rf "$dir"
mkdir -p "$dir"/{apt/state/lists/partial,apt/cache/archives/partial,debs}
touch "$dir/apt/status"
apt() {
    apt-get -qq -o Dir::State="$dir/apt/state" -o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" \
        -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= "$@" >"$dir/log" 2>&1
}
apt update || skip "apt-get update for arm64: $(tail -n 1 "$dir/log")"
(cd "$dir/debs" && apt download "${packages[@]}") || skip "apt-get download for arm64: $(tail -n 1 "$dir/log")"
for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir"; done
rm -rf "$dir/apt" "$dir/debs"
touch "$dir/complete"
