#!/usr/bin/env bash
# Includes point down: core includes no header of the rooms above it, a strategy sees the strategy contract only, and a
# binding never sees a strategy. core's private functions and sources belong to core alone: other rooms use the headers of
# core/shared. Tests may include private headers. call_circles.sh checks the floors inside a product.
#   include_directions.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0

complain() { echo "$1" >&2; failures=$((failures + 1)); }

# check_room FOLDER INCLUDE_DIRS QUOTED_DIRS ALLOWED FORBIDDEN
#   <weir/x.h> must lie in one of INCLUDE_DIRS and match ALLOWED; "x.h" must lie beside the file or in one of
#   QUOTED_DIRS; other headers must not match FORBIDDEN.
check_room() {
    local folder=$1 include_dirs=$2 quoted_dirs=$3 allowed=$4 forbidden=$5 file line header dir path found
    while IFS=: read -r file line header; do
        [ -n "$file" ] || continue
        found=no
        case $header in
        '<weir/'*)
            header=${header:1:-1}
            for dir in $include_dirs; do [ -e "$dir/$header" ] && found=yes; done
            [[ $header =~ ^($allowed)$ ]] || found=no
            ;;
        '"'*)
            header=${header:1:-1}
            for dir in "${file%/*}" $quoted_dirs; do
                path=$dir/$header
                [ -e "$path" ] || continue
                [[ $path == *..* ]] && path=$(realpath --relative-to=. "$path")
                [[ $path == "$folder"/* || " $quoted_dirs " == *" ${path%/*} "* ]] && found=yes
            done
            ;;
        *) [[ -n $forbidden && $header =~ ^\<($forbidden)\>$ ]] || found=yes ;;
        esac
        [ $found = yes ] || complain "$file:$line: $folder must not include $header"
    done < <(find "$folder" -name '*.[ch]' -exec grep -nHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]+[<"][^>"]+[>"]' {} + |
        sed -E 's/:[[:space:]]*#[[:space:]]*include[[:space:]]+/:/')
}

own_headers() { find "$1" -path '*/include/weir/*.h' -printf 'weir/%f|' | sed 's/|$//'; }

# One line a room:  folder | rooms whose public headers it sees | folders whose private headers it sees
# A room sees its own headers and core/shared. A room that sees no strategy has no line with `allocators`.
while IFS='|' read -r folder sees private; do
    folder=${folder// /} include_dirs=$folder/include
    for room in $sees; do include_dirs+=" $room/include"; done
    check_room "$folder" "$include_dirs" "core core/shared $folder/src $private" '.*' ''
done <<'ROOMS'
core | | core/src
bindings/ascend/acl | core bindings/host/pool |
bindings/ascendcl | core bindings/sim |
bindings/cuda/device | core bindings/host/pool |
bindings/sim | core |
bindings/host/pool | core allocators bindings/host/jemalloc |
bindings/host/jemalloc | core bindings/host/pool | bindings/host/pool/src
bindings/host/heap | core bindings/host/pool | bindings/host/pool/src
bindings/host/engines/adapters | core bindings/host/heap |
bindings/ascend/ge | core bindings/ascend/acl |
bindings/host/engines/ggml | core bindings/host/pool bindings/host/heap |
bindings/host/engines/onnxruntime | core bindings/host/pool bindings/host/heap |
bindings/host/engines/xnnpack | core bindings/host/pool bindings/host/heap |
bindings/torch | core allocators | bindings/torch/shared
bindings/ascend/torch | core allocators bindings/ascend/acl bindings/torch | bindings/torch/shared
bindings/cuda/torch | core allocators bindings/cuda/device bindings/torch | bindings/torch/shared
bindings/ascend/mstx | core |
benchmarks/weir/record/preload | core | benchmarks/weir/record
ROOMS
# A strategy sees integers: no thread, no clock, no device.
check_room allocators 'core/include allocators/include' 'core core/shared' \
    "weir/base\.h|weir/strategy\.h|$(own_headers allocators)" \
    'pthread\.h|threads\.h|time\.h|sys/time\.h|stdatomic\.h'
while IFS= read -r line; do complain "$line: of core/shared an allocator sees assert.h only"; done < <(
    grep -rnE '^#include "shared/' allocators --include='*.[ch]' | grep -v '"shared/assert\.h"' || true)
while IFS= read -r folder; do
    grep -q "^$folder |" "$0" || complain "$folder has no line in ${0##*/}"
done < <(find bindings -name CMakeLists.txt ! -path '*/src/*' -printf '%h\n' | grep /)

# No other folder declares or calls a private function of core, or compiles a source of it once more.
private=$(comm -23 \
    <(find core/src -name '*.[ch]' -exec grep -hE '^[a-z].*\(' {} + | grep -oE 'weir__[a-z0-9_]+\(' | tr -d '(' | sort -u) \
    <(grep -rhoE 'weir__[a-z0-9_]+' core/shared | sort -u))
while IFS=: read -r file line name; do
    complain "$file:$line: $name is core's own"
done < <(grep -rnowF "$private" allocators bindings benchmarks --include='*.[ch]')
while IFS=: read -r file line text; do
    complain "$file:$line: sources of core are compiled and included in core alone: $text"
done < <(grep -rnE 'core[}]?/src/|core_sources' allocators bindings benchmarks docs/examples \
    --include=CMakeLists.txt --include='*.[ch]' | grep -vE '^[^:]*:[0-9]+: *(\*|/\*|#[^i])')

[ $failures = 0 ] && echo "include directions hold" || exit 1
