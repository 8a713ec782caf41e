#!/usr/bin/env bash
# Arrows point down: core includes nothing of ours above it, an allocator sees the strategy contract only, a binding
# never sees a strategy. Core's private functions and sources are core's alone: other folders share with it the headers of
# core/shared, and the tests look inside.    include_directions.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0

complain() { echo "$1" >&2; failures=$((failures + 1)); }

# check_room FOLDER INCLUDE_DIRS QUOTED_DIRS ALLOWED FORBIDDEN
#   <weir/x.h> must lie in one of INCLUDE_DIRS and match ALLOWED; "x.h" must lie beside the file or in one of
#   QUOTED_DIRS; other headers must not match FORBIDDEN.
check_room() {
    local folder=$1 include_dirs=$2 quoted_dirs=$3 allowed=$4 forbidden=$5 file line header dir found
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
            for dir in "$(dirname "$file")" $quoted_dirs; do
                [ -e "$dir/$header" ] && [[ $(realpath --relative-to=. "$dir/$header") == "$folder"/* ||
                    " $quoted_dirs " == *" $(realpath --relative-to=. "$(dirname "$dir/$header")") "* ]] && found=yes
            done
            ;;
        *) [[ -n $forbidden && $header =~ ^\<($forbidden)\>$ ]] || found=yes ;;
        esac
        [ $found = yes ] || complain "$file:$line: $folder must not include $header"
    done < <(find "$folder" -name '*.[ch]' -exec grep -nHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]+[<"][^>"]+[>"]' {} + |
        sed -E 's/:[[:space:]]*#[[:space:]]*include[[:space:]]+/:/')
}

own_headers() { find "$1" -path '*/include/weir/*.h' -printf 'weir/%f|' | sed 's/|$//'; }

shared='core core/shared'
check_room core core/include "core/src $shared" '.*' ''
check_room allocators 'core/include allocators/include' '' \
    "weir/base\.h|weir/strategy\.h|$(own_headers allocators)" \
    'pthread\.h|threads\.h|time\.h|sys/time\.h|stdatomic\.h'
# torch and host are no bindings but allocators with a device inside: where a device and a strategy meet.
check_room bindings/host 'core/include allocators/include bindings/host/include
    bindings/host/jemalloc/include' "$shared bindings/host/src" '.*' ''
check_room bindings/torch 'core/include allocators/include bindings/acl/include bindings/cuda/include bindings/torch/include' '' '.*' ''
# acl and cuda also make a runtime for the host pool.
check_room bindings/acl 'core/include bindings/acl/include bindings/host/include' "$shared" '.*' ''
check_room bindings/cuda 'core/include bindings/cuda/include bindings/host/include' "$shared" '.*' ''
# heap stands in front of host pools and looks into them.
check_room bindings/heap 'core/include bindings/host/include bindings/heap/include' "$shared bindings/host/src" '.*' ''
# What gives an engine a heap sees the heap.
for binding in bindings/ggml bindings/onnxruntime bindings/xnnpack; do
    check_room $binding "core/include bindings/host/include bindings/heap/include $binding/include" '' '.*' ''
done
for binding in bindings/*/; do
    binding=${binding%/}
    case $binding in bindings/host | bindings/heap | bindings/torch | bindings/acl | bindings/cuda | bindings/ggml | \
        bindings/onnxruntime | bindings/xnnpack) continue ;; esac
    check_room "$binding" "core/include $(find "$binding" -name include -type d | tr '\n' ' ')" "$shared" '.*' ''
done

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
