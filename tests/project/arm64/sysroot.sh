#!/usr/bin/env bash
# A Debian for ARM64, unpacked into a folder: the libraries that weir, its tests and the weir command link, and the C library
# under them. QEMU runs programs in it, and DIR/dpkg is the database by which dpkg-shlibdeps knows the packages of these
# libraries. They come from the package source of this machine by an apt with folders of its own: nothing is installed, and
# this machine's apt learns of no other architecture.
#   sysroot.sh DIR      exits with 77 and a reason if a package cannot be fetched
set -euo pipefail
dir=$1
packages=(libc6 libgcc-s1 libstdc++6 libcmocka0 libcmocka-dev zlib1g zlib1g-dev liblzma5 liblzma-dev libjansson4
    libjansson-dev libsqlite3-0 libsqlite3-dev libhwloc15 libhwloc-dev libudev1 libudev-dev libjemalloc2 libjemalloc-dev
    busybox-static)
skip() { echo "skipped: $*"; exit 77; }
[ "$(cat "$dir/complete" 2>/dev/null)" != "${packages[*]}" ] || exit 0
command -v apt-get >/dev/null || skip "no apt-get to fetch libraries for ARM64"
rm -rf "$dir"
mkdir -p "$dir"/{apt/state/lists/partial,apt/cache/archives/partial,debs,dpkg/info,dpkg/updates}
touch "$dir/dpkg/status"
apt() {
    apt-get -qq -o Dir::State="$dir/apt/state" -o Dir::State::status="$dir/dpkg/status" -o Dir::Cache="$dir/apt/cache" \
        -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= "$@" >"$dir/log" 2>&1
}
apt update || skip "apt-get update for arm64: $(tail -n 1 "$dir/log")"
(cd "$dir/debs" && apt download "${packages[@]}") || skip "apt-get download for arm64: $(tail -n 1 "$dir/log")"
for deb in "$dir"/debs/*.deb; do
    dpkg-deb -x "$deb" "$dir"
    info=$dir/dpkg/info/$(dpkg-deb -f "$deb" Package)
    dpkg-deb --fsys-tarfile "$deb" | tar -t | sed "s,^\.,$dir," >"$info.list"
    for part in shlibs symbols; do dpkg-deb -I "$deb" $part >"$info.$part" 2>/dev/null || rm "$info.$part"; done
    { dpkg-deb -f "$deb"; echo $'Status: install ok installed\n'; } >>"$dir/dpkg/status"
done
rm -rf "$dir/apt" "$dir/debs"
find "$dir" -lname '/*' -printf '%l %p\n' | while read -r to link; do ln -sf "$dir$to" "$link"; done
echo "${packages[*]}" >"$dir/complete"
