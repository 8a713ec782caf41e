#!/usr/bin/env bash
# initrd.sh OUT PROGRAM...: makes a root file system of busybox, the programs and the libraries they need. Its init runs
# one program after the other, writes "WEIR-RC name=status" after each, and turns the machine off. For another
# architecture BUSYBOX in the environment names its busybox, and LIBRARIES folders with its libraries.
set -euo pipefail
out=$1
shift
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

add_foreign() { # FILE: the libraries that it needs, from the folders of LIBRARIES; glibc loads libgcc_s by itself
    local name folder
    for name in libgcc_s.so.1 $(readelf -d "$1" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p') \
        $(readelf -p .interp "$1" 2>/dev/null | grep -o 'ld-.*'); do
        [ ! -e "$root/lib/$name" ] || continue
        for folder in $LIBRARIES; do
            [ -e "$folder/$name" ] || continue
            cp -L "$folder/$name" "$root/lib/"
            add_foreign "$root/lib/$name"
            break
        done
    done
}

add() { # PROGRAM: and its libraries
    cp "$1" "$root/bin/"
    [ -z "${LIBRARIES:-}" ] || { add_foreign "$1"; return; }
    { ldd "$1" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
        if [ ! -e "$root$library" ]; then
            mkdir -p "$root$(dirname "$library")"
            cp -L "$library" "$root$library"
        fi
    done
}

chmod 755 "$root" # programs that give up root's rights go through it
mkdir -p "$root"/{bin,lib,proc,sys,dev,tmp,cgroup}
add "${BUSYBOX:-$(command -v busybox)}"
for name in sh mount mkdir poweroff cat; do ln -s busybox "$root/bin/$name"; done
for program in "$@"; do
    add "$program"
    basename "$program" >>"$root/programs"
done
cat >"$root/init" <<'INIT'
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /cgroup
for program in $(cat /programs); do
    echo "=== $program"
    /bin/$program
    echo "WEIR-RC $program=$?"
done
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$out"
