#!/usr/bin/env bash
# Builds the Debian packages (preset `package`), checks their fields and files, installs them into an empty root of their
# own, and builds and runs users of them from there (users.sh). deb_chroot.sh does the same in an empty Debian.
#   deb_test.sh SOURCE_DIR [CMAKE_ARGUMENT...]       (CC, CXX, CMAKE, GENERATOR from the environment; DEBS: keep them there)
# If DEB_HOST_ARCH names another architecture, BUILD is a finished build for it and EMULATOR runs its programs. The packages
# must then hold the same files as those of this machine.
set -euo pipefail
source_dir=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture file fakeroot; do
    command -v $tool >/dev/null || { echo "skipped: no $tool (script/bootstrap test installs it)"; exit 77; }
done

fail() { echo "$*" >&2; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "failed: $*"; }; }

build() { # FOLDER CMAKE_ARGUMENT...
    (cd "$source_dir" && quietly "$CMAKE" --preset package -B "$@")
    quietly "$CMAKE" --build "$1" --parallel "$(nproc)"
}
build=${BUILD:-$scratch/build}
[ -n "${BUILD:-}" ] || build "$build" "$@"
# Without a umask of its own the package would depend on the builder's.
(umask 077 && cd "$build" && quietly cpack)
mv "$build/packages" "$scratch/debs"
rm -r "$scratch/debs/_CPack_Packages"
version=$(sed -nE 's/^#define WEIR_VERSION_(MAJOR|MINOR|PATCH) //p' "$source_dir/core/include/weir/base.h" | paste -sd.)
soname=${version%.*} # before 1.0
architecture=${DEB_HOST_ARCH:-$(dpkg-architecture -qDEB_HOST_ARCH)}
libdir=lib/$(dpkg-architecture -a"$architecture" -qDEB_HOST_MULTIARCH)
cd "$scratch/debs"
debs=(*.deb)
if [ -n "${DEBS:-}" ]; then
    mkdir -p "$DEBS"
    cp "${debs[@]}" "$DEBS"
fi

echo "what they say: ${debs[*]}"
names=()
for deb in "${debs[@]}"; do names+=("$(dpkg-deb -f "$deb" Package)"); done
for name in "libweir$soname" "libweir-acl$soname" "libweir-cuda$soname" "libweir-jemalloc$soname" "libweir-onnxruntime$soname" \
    "libweir-torch$soname" "libweir-trace$soname" libweir-dev weir-tools; do
    [ -e "${name}_$version-1_$architecture.deb" ] || fail "there is no ${name}_$version-1_$architecture.deb"
done
# says PACKAGE FIELD TEXT: the field has the text.
says() {
    local value
    value=$(dpkg-deb -f "$1"_*.deb "$2")
    [[ ", $value," == *"$3"* ]] || fail "$1: $2 is '$value', without '$3'"
}
for name in "${names[@]}"; do
    says "$name" Source weir
    says "$name" Architecture "$architecture"
    says "$name" Priority optional
    says "$name" Maintainer '@'
    control=$(dpkg-deb --ctrl-tarfile "$name"_*.deb | tar t)
    ! grep -E 'postinst|postrm|preinst|prerm' <<<"$control" || fail "$name has scripts"
    case $name in
    libweir-dev) says $name Section libdevel ;;
    weir-tools) says $name Section devel ;;
    *)
        says "$name" Section libs
        says "$name" Multi-Arch same
        says libweir-dev Depends ", $name (= $version-1),"
        dpkg-deb -I "$name"_*.deb triggers | grep -qx 'activate-noawait ldconfig' || fail "$name has no trigger"
        library=${name%"$soname"}
        dpkg-deb -I "$name"_*.deb shlibs | grep -qx "${library//-/_} $soname $name (>= $version)" ||
            fail "$name: shlibs is '$(dpkg-deb -I "$name"_*.deb shlibs)'"
        ;;
    esac
    [ "$name" = "libweir$soname" ] || says "$name" Depends ", libweir$soname (= $version-1),"
    dpkg-deb -e "$name"_*.deb "$scratch/control-$name"
    dpkg-deb -x "$name"_*.deb "$scratch/tree-$name"
    (cd "$scratch/tree-$name" && quietly md5sum --strict -c "$scratch/control-$name/md5sums")
    [ -s "$scratch/tree-$name/usr/share/doc/$name/copyright" ] || fail "$name has no copyright"
    quietly gzip -t "$scratch/tree-$name/usr/share/doc/$name/changelog.Debian.gz"
done
says libweir-dev Depends 'libhwloc-dev,'
says libweir-dev Depends 'libjemalloc-dev,'
for package in zlib1g liblzma libsqlite3; do says libweir-dev Depends " $package-dev,"; done
says "libweir$soname" Depends 'libc6 ('
says "libweir-jemalloc$soname" Depends 'libjemalloc2'
says weir-tools Depends 'libjansson4'
says weir-tools Depends 'libsqlite3-0'
says "libweir-trace$soname" Depends 'libsqlite3-0'

echo "what they hold"
for file in "libweir$soname/usr/$libdir/libweir.so.$soname" "libweir-dev/usr/$libdir/libweir.so" \
    "libweir-dev/usr/$libdir/libweir.a" "libweir-dev/usr/$libdir/pkgconfig/weir.pc" \
    "libweir-dev/usr/$libdir/cmake/weir/weirConfig.cmake" libweir-dev/usr/include/weir/weir.h \
    libweir-dev/usr/share/weir/contract/device_contract.c \
    libweir-dev/usr/share/doc/libweir-dev/changelog.gz "libweir-acl$soname/usr/$libdir/weir/libascendcl.so" \
    "libweir-torch$soname/usr/$libdir/libweir_torch.so" weir-tools/usr/bin/weir \
    "libweir-onnxruntime$soname/usr/$libdir/weir/libweir_onnxruntime_plugin.so" \
    "weir-tools/usr/$libdir/weir/libweir_record.so" "weir-tools/usr/$libdir/weir/libweir_preload.so" weir-tools/usr/share/man/man1/weir.1.gz \
    weir-tools/usr/share/bash-completion/completions/weir weir-tools/usr/share/weir/replay.schema.json \
    weir-tools/usr/share/weir/traces/llama_ctx_dyn.wtr.xz; do
    [ -e "$scratch/tree-$file" ] || [ -L "$scratch/tree-$file" ] || fail "not packaged: $file"
done
# No installed file is missing from the packages, and no file is in two packages. Debian packs manual pages.
list() { (cd "$1" && find . ! -type d | sed -E 's,(/man/.*[^z])$,\1.gz,'); }
installed() { # BUILD
    DESTDIR=$scratch/plain quietly "$CMAKE" --install "$1"
    list "$scratch/plain" | sort
    rm -r "$scratch/plain"
}
for tree in "$scratch"/tree-*; do list "$tree"; done | sort >"$scratch/packaged"
diff -u <(installed "$build") "$scratch/packaged" >&2 || fail "packages (+) and an installation (-) differ"
! grep -rIl "$scratch\|$source_dir" "$scratch"/tree-*/ "$scratch"/control-*/ >&2 || fail "these files name the build"
! grep -rl "$source_dir" "$scratch"/tree-*/ >&2 || fail "these binaries name the build"
! find "$scratch"/tree-*/ -perm /022 ! -type l | grep . >&2 || fail "others may write these"
! find "$scratch"/tree-*/ ! -perm -044 ! -type l | grep . >&2 || fail "others cannot read these"

echo 'int one;' | "$CC" -x c -c -o "$scratch/one.o" -
machines=$({ find "$scratch"/{one.o,tree-*} -type f -exec readelf -h {} + 2>/dev/null || true; } | sed -n 's/^ *Machine: *//p' | sort -u)
[ "$(wc -l <<<"$machines")" = 1 ] || fail "programs and libraries are of several architectures: $machines"
if [ -n "${BUILD:-}" ]; then
    echo "the same files as here"
    (unset CC CXX CFLAGS CMAKE_TOOLCHAIN_FILE PKG_CONFIG_LIBDIR && build "$scratch/native" "$@")
    diff -u <(installed "$scratch/native" | sed "s,$(dpkg-architecture -qDEB_BUILD_MULTIARCH),${libdir#lib/},") \
        "$scratch/packaged" >&2 || fail "packages of this machine (-) and of $architecture (+) hold other files"
fi

echo "the same bytes again"
(cd "$build" && quietly cpack)
for deb in "${debs[@]}"; do
    cmp "$deb" "$build/packages/$deb" >&2 || fail "a second cpack made another $deb"
done

echo "installed into a root of their own"
root=$scratch/root
mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
touch "$root"/var/lib/dpkg/{status,available}
quietly fakeroot dpkg --root="$root" --force-not-root --force-depends --force-architecture --log=/dev/null --install "${debs[@]}"
quietly dpkg --root="$root" --verify
bash "$source_dir/tests/project/package/users.sh" "$source_dir/tests" "$source_dir/README.md" "$root" /usr "$libdir"
(cd / && quietly ${EMULATOR:-} "$root/usr/bin/weir" replay llama_ctx_dyn --strategy caching)
grep -q "^$root/usr/share/weir/traces/llama_ctx_dyn" "$scratch/log" || fail "weir replay: $(cat "$scratch/log")"
[ -n "${EMULATOR:-}" ] || quietly "$root/usr/bin/weir" record --what host --min 0 -o "$scratch/run.wtr" -- ls /
[ -n "${EMULATOR:-}" ] || quietly "$root/usr/bin/weir" run --report "$scratch/report" -- ls /
quietly fakeroot dpkg --root="$root" --force-not-root --force-depends --log=/dev/null --purge "${names[@]}"
[ ! -e "$root/usr" ] || ! find "$root/usr" ! -type d | grep . >&2 || fail "these are left after a purge"
echo "built, looked at, installed, built against, run and removed"
