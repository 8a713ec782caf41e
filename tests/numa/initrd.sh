#!/usr/bin/env bash
# initrd.sh OUT PROGRAM...: makes a root file system of busybox, the programs and the libraries they need. Its init runs
# one program after the other, writes "WEIR-RC name=status" after each, and turns the machine off.
set -euo pipefail
out=$1
shift
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

add() { # PROGRAM: and its libraries
    cp "$1" "$root/bin/"
    { ldd "$1" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
        if [ ! -e "$root$library" ]; then
            mkdir -p "$root$(dirname "$library")"
            cp -L "$library" "$root$library"
        fi
    done
}

mkdir -p "$root"/{bin,proc,sys,dev,tmp,cgroup}
add "$(command -v busybox)"
for name in sh mount poweroff cat; do ln -s busybox "$root/bin/$name"; done
for program in "$@"; do
    add "$program"
    basename "$program" >>"$root/programs"
done
cat >"$root/init" <<'INIT'
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
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
