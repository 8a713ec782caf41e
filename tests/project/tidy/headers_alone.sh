#!/usr/bin/env bash
# Each public header compiles alone, as C11 and as C++17, without a warning.    headers_alone.sh SOURCE_DIR CC CXX
set -euo pipefail
source_dir=$1 cc=$2 cxx=${3:-}
flags=(-fsyntax-only -Werror -Wall -Wextra -Wpedantic -Wundef -Wshadow)
for dir in "$source_dir"/{core,allocators,bindings/{*,*/*,*/*/*},benchmarks/weir/*}/include; do
    [ -d "$dir" ] && flags+=("-I$dir")
done
count=0
for header in "$source_dir"/{core,allocators,bindings/{*,*/*,*/*/*},benchmarks/weir/*}/include/weir/*.h; do
    [ -e "$header" ] || continue
    line="#include <weir/$(basename "$header")>"
    # Included twice to test the guard. The declaration after it keeps the unit from being empty.
    printf '%s\n%s\nextern int weir_tidy;\n' "$line" "$line" | "$cc" -std=c11 "${flags[@]}" -Wstrict-prototypes -x c -
    if [ -n "$cxx" ]; then
        printf '%s\n%s\n' "$line" "$line" | "$cxx" -std=c++17 "${flags[@]}" -x c++ -
    fi
    count=$((count + 1))
done
for header in "$source_dir"/{core,allocators,bindings/{*,*/*,*/*/*},benchmarks/weir/*}/include/weir/*.hpp; do
    [ -e "$header" ] && [ -n "$cxx" ] || continue
    line="#include <weir/$(basename "$header")>"
    printf '%s\n%s\n' "$line" "$line" | "$cxx" -std=c++17 "${flags[@]}" -x c++ -
    printf '%s\n%s\n' "$line" "$line" | "$cxx" -std=c++17 -fno-rtti "${flags[@]}" -x c++ -
    count=$((count + 1))
done
[ $count -gt 0 ] && echo "$count headers compile alone${cxx:+, as C and as C++}"
