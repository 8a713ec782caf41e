#!/usr/bin/env bash
# Each ACL header compiles alone, as C11 and as C++17, without a warning, with every compiler there is.
#   acl_headers_alone.sh SOURCE_DIR CC [CXX]
set -euo pipefail
include_dir=$1/bindings/ascendcl/include
shift
cd "$include_dir"
flags=(-fsyntax-only -Werror -Wall -Wextra -Wpedantic -Wundef -Wshadow -Wconversion "-I$include_dir")

# try COMPILER LANGUAGE FLAG...: includes each header twice, so that its guard is tested too. The declaration keeps the unit
# from being empty. Deprecated names must not cause a warning if they are not used.
count=0
try() {
    local compiler=$1 language=$2 header
    shift 2
    for header in acl/*.h acl/error_codes/*.h; do
        printf '#include "%s"\n#include "%s"\nextern int weir_tidy;\n' "$header" "$header" |
            "$compiler" "$@" "${flags[@]}" -x "$language" - || { echo "$compiler: $header" >&2; exit 1; }
        count=$((count + 1))
    done
}

tried=' '
for compiler in "$@" gcc clang g++ clang++; do
    path=$(command -v "$compiler") || continue
    case ${compiler##*/} in
    *++*) language=c++ standard=(-std=c++17) ;;
    *) language=c standard=(-std=c11 -Wstrict-prototypes -Wmissing-prototypes) ;;
    esac
    path=$language:$(realpath "$path")
    [[ $tried == *" $path "* ]] && continue
    tried+="$path "
    try "$compiler" $language "${standard[@]}"
    try "$compiler" $language "${standard[@]}" -DFUNC_VISIBILITY
done
[ $count -gt 0 ] && echo "$count times a header compiled alone:$tried"
