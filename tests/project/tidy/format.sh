#!/usr/bin/env bash
# Every C and C++ file is as script/format leaves it, and one number is the width: .clang-format, .editorconfig. The rules
# for sizeof and typedef hold.
#   format.sh SOURCE_DIR
set -euo pipefail
cd "$1"
width=$(sed -nE 's/^ColumnLimit: *//p' .clang-format)
for other in $(sed -nE 's/^max_line_length *= *//p' .editorconfig); do
    [ "$other" = "$width" ] || { echo ".editorconfig says $other columns, .clang-format $width" >&2; exit 1; }
done
# sizeof has brackets, and a struct of one file or folder has no typedef: only names with a prefix are typedefs.
style=$(find core allocators bindings benchmarks docs tests -name '*.[ch]' ! -path '*/include/*' -exec awk '
    /[^a-z_"`]sizeof [a-z*&]/ && !/^ ?\*|\/\*.*sizeof / { print FILENAME ":" FNR ": sizeof without brackets" }
    /^typedef (struct|union)( [a-z_0-9]+)? \{/ { typedef = 1 }
    /^\} [a-z]+;/ && typedef { print FILENAME ":" FNR ": a typedef without a prefix" }
    /^\}/ { typedef = 0 }' {} +)
[ -z "$style" ] || { echo "$style" >&2; exit 1; }
command -v clang-format-14 >/dev/null || { echo 'skipped: no clang-format-14'; exit 77; }
if ! differs=$(script/format --check 2>&1); then
    sed -nE 's/^(.*): error: code should be clang-formatted.*/\1/p; /: more than /p' <<<"$differs" | uniq | head -n 20 >&2
    echo 'these lines differ from what script/format writes, or are too wide' >&2
    exit 1
fi
echo "all files have the format of script/format"
