#!/usr/bin/env bash
# Installs the Debian packages with apt into an empty Debian of its own, builds and runs users of them there (users.sh),
# runs the weir command, and removes everything again. This is the long form of deb_test.sh: it needs root, the network and
# debootstrap, and is not part of ctest.
#   deb_chroot.sh [DEBS]     DEBS: a folder with the packages; without it they are built here first
# Environment: SUITE (bookworm), MIRROR (http://deb.debian.org/debian), KEEP=1 keeps the root and names it.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
suite=${SUITE:-bookworm}
cannot() { echo "deb_chroot.sh: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || cannot "needs root"
for tool in debootstrap unshare chroot; do command -v $tool >/dev/null || cannot "needs $tool"; done
work=$(mktemp -d /var/tmp/weir-deb.XXXXXX)
root=$work/root
cleanup() { [ -n "${KEEP:-}" ] && echo "kept: $root" >&2 || rm -rf --one-file-system "$work"; }
trap cleanup EXIT

debs=${1:-}
if [ -z "$debs" ]; then
    debs=$work/debs
    CC=cc CXX=c++ CMAKE=cmake GENERATOR=Ninja DEBS=$debs bash "$source_dir/tests/project/package/deb_test.sh" "$source_dir"
fi
compgen -G "$debs/*.deb" >/dev/null || cannot "$debs has no packages"

echo "an empty Debian $suite"
debootstrap --variant=minbase "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; cannot "debootstrap failed"; }
cp -L /etc/resolv.conf "$root/etc/" 2>/dev/null || true
grep -ls '^Acquire::' /etc/apt/apt.conf.d/* | xargs -r cp -t "$root/etc/apt/apt.conf.d/" # the caller's way to the network
mkdir -p "$root/weir/tests/project" "$root/weir/docs" "$root/debs"
cp -r "$source_dir/tests/project/package" "$root/weir/tests/project/"
cp -r "$source_dir/docs/examples" "$root/weir/docs/"
cp "$source_dir/README.md" "$root/weir/"
cp "$debs"/*.deb "$root/debs/"
cat >"$root/weir/inside.sh" <<'INSIDE'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt() { apt-get -qq -y -o Dpkg::Use-Pty=0 "$@" >/tmp/log 2>&1 || { tail -n 30 /tmp/log >&2; echo "failed: apt-get $*" >&2; exit 1; }; }
apt update
names=$(for deb in /debs/*.deb; do dpkg-deb -f "$deb" Package; done)

echo "weir-tools alone"
chmod 755 /debs
apt install --no-install-recommends /debs/libweir[0-9]*.deb /debs/weir-tools_*.deb
ldconfig -p | grep -q 'libweir\.so\.' || { echo "the loader does not know libweir" >&2; exit 1; }
weir --version
weir info --list | wc -l
(cd / && weir replay llama_ctx_dyn --strategy caching)
weir record --what host --min 0 -o /tmp/run.wtr -- ls / >/dev/null
weir info /tmp/run.wtr | head -n 4
weir run -- ls / 2>&1 >/dev/null | grep "^weir: ls "

echo "everything, with compilers"
apt install --no-install-recommends /debs/*.deb
apt install --no-install-recommends gcc g++ libc6-dev cmake ninja-build pkg-config binutils
dpkg -V $names
multiarch=$(gcc -print-multiarch)
CC=gcc CXX=g++ bash /weir/tests/project/package/users.sh /weir/tests /weir/README.md '' /usr "lib/$multiarch"

echo "removed"
apt purge $names
left=$(find /usr /etc /var/lib/dpkg/info -iname '*weir*')
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }
! ldconfig -p | grep libweir >&2 || { echo "the loader still knows libweir" >&2; exit 1; }
INSIDE
unshare --mount --pid --fork -- bash -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --make-rslave "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" &&
    exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 chroot "$1" bash /weir/inside.sh' inside "$root"
echo "installed by apt, built against, run and removed, in an empty Debian $suite"
