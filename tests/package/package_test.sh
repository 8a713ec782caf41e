#!/usr/bin/env bash
# Installs a build into an empty prefix, moves the prefix, and builds and runs users of it: C and C++, by find_package,
# by pkg-config and as a subdirectory.
#   package_test.sh SOURCE_DIR BUILD_DIR LIBDIR      (CC, CXX, CFLAGS, CXXFLAGS, CMAKE, GENERATOR from the environment)
set -euo pipefail
source_dir=$1 build_dir=$2 libdir=$3
here=$source_dir/tests/package
[ -n "${CXX:-}" ] && cxx=ON || cxx=OFF
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; echo "failed: $*" >&2; exit 1; }; }
# The installed library is found through the loader's path: a user who installs into a private prefix does the same.
run() { LD_LIBRARY_PATH=$prefix/$libdir quietly "$@"; }

quietly "$CMAKE" --install "$build_dir" --prefix "$scratch/first"
prefix=$scratch/moved/here
mkdir "$scratch/moved"
mv "$scratch/first" "$prefix"
for file in include/weir/weir.h include/weir/caching.h include/weir/sim.h include/weir/mstx.h "$libdir/pkgconfig/weir.pc" \
    "$libdir/cmake/weir/weirConfig.cmake" "$libdir/weir/libweir_mstx_check.so" "$libdir/weir/libms_tools_ext.so"; do
    [ -e "$prefix/$file" ] || { echo "not installed: $file" >&2; exit 1; }
done
acl=OFF
if [ -e "$prefix/$libdir/weir/libascendcl.so" ]; then # weir::acl was built against the simulated runtime
    acl=ON
    for file in include/weir/acl.h include/weir/ascendcl.h include/weir/torch.h "$libdir/libweir_torch.so"; do
        [ -e "$prefix/$file" ] || { echo "not installed: $file" >&2; exit 1; }
    done
fi
if grep -rIl "$build_dir\|$scratch/first" "$prefix" >&2; then
    echo "these installed files name the build tree or the first prefix" >&2
    exit 1
fi

echo "find_package"
quietly "$CMAKE" -G "$GENERATOR" -S "$here/user" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DWITH_CXX=$cxx \
    -DWITH_ACL="$acl"
quietly "$CMAKE" --build "$scratch/cmake"
run "$scratch/cmake/user_c"
[ $cxx = OFF ] || run "$scratch/cmake/user_cxx"
[ $acl = OFF ] || run "$scratch/cmake/user_acl"
[ ! -e "$scratch/cmake/user_sim" ] || run "$scratch/cmake/user_sim"

echo "a tool"
MSTX_INJECTION_PATH=$prefix/$libdir/weir/libweir_mstx_check.so WEIR_MSTX_CHECK_EXIT=1 run "$scratch/cmake/user_c"
grep -q 'heaps and 1 regions announced, 0 findings' "$scratch/log" || { cat "$scratch/log" >&2; exit 1; }

echo "pkg-config"
export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
quietly pkg-config --exact-version="$(sed -nE 's/^Version: //p' "$PKG_CONFIG_PATH/weir.pc")" weir
read -ra flags <<<"${CFLAGS:-} $(pkg-config --static --cflags weir)"
read -ra libs <<<"$(pkg-config --static --libs weir)"
quietly "$CC" -std=c11 "$here/user/user.c" "${flags[@]}" -o "$scratch/user_c" "${libs[@]}"
run "$scratch/user_c"
if [ $cxx = ON ]; then
    quietly "$CXX" -std=c++17 "$here/user/user.cc" "${flags[@]}" -o "$scratch/user_cxx" "${libs[@]}"
    run "$scratch/user_cxx"
fi

echo "add_subdirectory"
quietly "$CMAKE" -G "$GENERATOR" -S "$here/user" -B "$scratch/sub" -DWEIR_SOURCE="$source_dir" -DWITH_CXX=OFF
quietly "$CMAKE" --build "$scratch/sub" --target user_c
quietly "$scratch/sub/user_c"

if [ -e "$prefix/bin/weir" ]; then
    echo "the weir command"
    trace=$(find "$prefix/share/weir/traces" -name 'llama*.wtr.xz')
    env -u LD_LIBRARY_PATH "$prefix/bin/weir" replay "$trace" --strategy caching >"$scratch/log" 2>&1 ||
        { cat "$scratch/log" >&2; exit 1; }
fi
echo "installed, moved, built against and run"
