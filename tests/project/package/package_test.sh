#!/usr/bin/env bash
# Installs a build into an empty prefix, moves the prefix, and builds and runs users of it (users.sh). Then checks the
# messages of find_package about missing parts.
#   package_test.sh SOURCE_DIR BUILD_DIR LIBDIR      (CC, CXX, CFLAGS, CXXFLAGS, CMAKE, GENERATOR from the environment)
set -euo pipefail
source_dir=$1 build_dir=$2 libdir=$3
here=$source_dir/tests/project/package
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "$*" >&2; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "failed: $*"; }; }

quietly "$CMAKE" --install "$build_dir" --prefix "$scratch/first"
prefix=$scratch/moved/here
mkdir "$scratch/moved"
mv "$scratch/first" "$prefix"
! grep -rIl "$build_dir\|$source_dir\|$scratch/first" "$prefix" >&2 ||
    fail "these installed files name the source, the build tree or the first prefix"

# Every public header is there; headers of a part are there if the part is.
for header in "$source_dir"/{core,allocators,bindings/{*,*/*,*/*/*},benchmarks/weir/*}/include/weir/*.h*; do
    name=${header##*/} part=
    case $name in acl.h | cuda.h | torch.h | torch_cuda.h | onnxruntime.h | jemalloc.h) part=${name%.h} ;;
    trace_file.h) part=trace ;; esac
    [ -e "$prefix/include/weir/$name" ] || [ -n "$part" -a ! -e "$prefix/$libdir/libweir_$part.so" ] ||
        fail "not installed: $name"
done
for file in share/weir/weir_ggml.c share/weir/weir_ge.hpp share/weir/weir_c10.hpp share/weir/weir_heap.py "$libdir/weir/libweir_mstx_check.so" "$libdir/weir/libms_tools_ext.so" \
    $([ ! -e "$prefix/$libdir/weir/libascendcl.so" ] || echo include/weir/ascendcl.h); do
    [ -e "$prefix/$file" ] || fail "not installed: $file"
done

bash "$here/users.sh" "$source_dir/tests" "$source_dir/README.md" '' "$prefix" "$libdir"

echo "documents"
bash "$here/links.sh" "$(dirname "$(find "$prefix/share/doc" -name CONTRIBUTING.md)")"

echo "a source"
quietly "$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" -I"$here/user/ggml" "$prefix/share/weir/weir_ggml.c"

echo "a tool"
export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
read -ra flags <<<"${CFLAGS:-} $(pkg-config --static --cflags weir)"
read -ra libs <<<"$(pkg-config --static --libs weir)"
quietly "$CC" -std=c11 "$here/user/user.c" "${flags[@]}" -o "$scratch/user" "${libs[@]}"
MSTX_INJECTION_PATH=$prefix/$libdir/weir/libweir_mstx_check.so WEIR_MSTX_CHECK_EXIT=1 \
    LD_LIBRARY_PATH=$prefix/$libdir quietly "$scratch/user"
grep -q 'heaps and 1 regions announced, 0 findings' "$scratch/log" || fail "$(cat "$scratch/log")"

if [ -e "$prefix/bin/weir" ]; then
    echo "the weir command"
    cd /
    for arguments in 'replay llama_ctx_dyn --strategy caching' 'info llama_ctx_dyn' 'import -q llama_ctx_dyn'; do
        quietly env -u LD_LIBRARY_PATH "$prefix/bin/weir" $arguments
    done
    quietly "$prefix/bin/weir" --version
    [ "$(cat "$scratch/log")" = "weir $(pkg-config --modversion weir)" ] || fail "weir --version says $(cat "$scratch/log")"
    # The libraries that the command loads into another program are found too (not with sanitizers).
    if [[ ${CFLAGS:-} != *-fsanitize* ]]; then
        quietly env -u LD_LIBRARY_PATH "$prefix/bin/weir" record --what host --min 0 -o "$scratch/run.wtr" -- ls /
        quietly "$prefix/bin/weir" info "$scratch/run.wtr"
        grep -q '^  peak live' "$scratch/log" || fail "$(cat "$scratch/log")"
        quietly env -u LD_LIBRARY_PATH "$prefix/bin/weir" run -- ls /
        grep -q '^weir: ls ' "$scratch/log" || fail "$(cat "$scratch/log")"
    fi
fi

echo "what is missing"
# refused TEXT PARTS KIND: checks that find_package(weir) fails with TEXT.
refused() {
    rm -rf "$scratch/refused"
    quietly "$CMAKE" -G "$GENERATOR" -S "$here/user" -B "$scratch/refused" -DCMAKE_PREFIX_PATH="$prefix" -DREFUSED="$1" \
        -DPARTS="$2" -DKIND="$3"
}
rm -f "$prefix/$libdir/cmake/weir"/weir-jemalloc-* "$prefix/$libdir"/libweir_torch.so* "$prefix/bin/weir"
refused "component 'jemalloc' is not installed, component 'torch' is not installed, component 'tools' is not installed; weir" \
    jemalloc,torch,tools ''
refused "there is no component 'other', component 'tools' is not installed" other,tools ''
refused 'the components static and shared exclude each other' shared static
! grep -q hwloc "$prefix/$libdir/pkgconfig/weir.pc" || [ ! -e "$prefix/$libdir/libweir.a" ] ||
    PKG_CONFIG_LIBDIR=$scratch PKG_CONFIG_PATH='' refused 'links hwloc>=2.1, and pkg-config does not find it' '' static
if [ -e "$prefix/$libdir/libweir_trace.a" ]; then # without liblzma: weir::weir is there, and weir::trace is not
    mkdir "$scratch/modules"
    pkg-config --variable=pc_path pkg-config | tr : '\n' | while read -r folder; do
        [ ! -d "$folder" ] || find "$folder" -name '*.pc' ! -name liblzma.pc -exec ln -sft "$scratch/modules" {} +
    done
    export PKG_CONFIG_LIBDIR=$scratch/modules PKG_CONFIG_PATH=
    refused "component 'trace': the static libweir_trace links liblzma, and pkg-config does not find it" trace static
    quietly "$CMAKE" -G "$GENERATOR" -S "$here/user" -B "$scratch/without" -DCMAKE_PREFIX_PATH="$prefix" -DKIND=static
    unset PKG_CONFIG_LIBDIR PKG_CONFIG_PATH
fi
for kind in static shared; do
    rm "$prefix/$libdir/cmake/weir/weir-weir-$kind.cmake" 2>/dev/null || continue
    refused "component '$kind': the $kind library is not installed in $prefix" '' $kind
    break
done

echo "installed, moved, built against and run"
