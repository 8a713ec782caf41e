#!/usr/bin/env bash
# A product includes its own headers, and of the products that it stands on or uses (tests/products.txt) what they give to
# others: the public headers in include/weir and the headers in a folder `shared`, which this project's own folders alone see.
# Within a product, private headers are free, except in the pool: core includes nothing of the folders above it, a strategy
# sees the strategy contract only, the simulator no strategy. Tests may include private headers.
# call_circles.sh checks the floors inside a product.
#   include_directions.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }
includes() { # FOLDER...: prints FILE, LINE and "header" or <header>, separated by tabs
    find "$@" -regex '.*\.\(c\|h\|cc\|cpp\|hpp\)' -exec grep -nHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]+[<"][^>"]+[>"]' {} + |
        sed -E 's/^([^:]*):([0-9]*):[^<"]*([<"].*)/\1\t\2\t\3/'
}

# The adapters of engines are files to be copied, so they are public as they are.
# A header is looked up beside the file that includes it, then by the end of its path. The command's libraries have no folder of
# their own for what they give: benchmarks and the command see all their headers.
folders='core allocators bindings benchmarks'
# shellcheck disable=SC2086
find $folders -regex '.*\.h\(pp\)?' | awk -F'\t' '
    function product_of(path,    prefix, best) {
        for (prefix in owner) if (index(path, prefix "/") == 1 && length(prefix) > length(best)) { best = prefix }
        return owner[best]
    }
    function given(path) {
        return path ~ /\/include\/weir\/|\/shared\/|\/adapters\// || path ~ /^benchmarks\/weir\/(trace|models|replay)\//
    }
    function normal(path) { while (sub(/[^\/]+\/\.\.\//, "", path)) { continue } return path }
    # Returns whether a file of the product may include the header at that path.
    function allowed(product, path,    other) {
        other = product_of(path)
        return other == product || ((product, other) in sees && given(path))
    }
    FILENAME ~ /products.txt$/ {
        if (/^[a-z]/) {
            split($0, cell, / *\| */)
            n = split(cell[2], names, " ")
            for (i = 1; i <= n; i++) { owner[names[i]] = cell[1] }
            n = split(cell[3] " " cell[4], names, " ")
            for (i = 1; i <= n; i++) { sees[cell[1], names[i]] = 1 }
        }
        next
    }
    NF == 1 {
        n = split($0, part, "/")
        tail = part[n]
        at[tail] = at[tail] " " $0
        for (i = n - 1; i > 0; i--) { tail = part[i] "/" tail; at[tail] = at[tail] " " $0 }
        next
    }
    {
        quoted = $3 ~ /^"/
        header = substr($3, 2, length($3) - 2)
        if (!quoted && header !~ /^weir\//) { next }
        product = product_of($1)
        folder = $1
        sub(/[^\/]*$/, "", folder)
        count++
        if (quoted && normal(folder header) in at && index(at[normal(folder header)], " " normal(folder header))) {
            good = allowed(product, normal(folder header))
        } else {
            n = split(at[header], places, " ")
            good = n == 0 && quoted # made by the build
            for (i = 1; i <= n; i++) { good = good || allowed(product, places[i]) }
        }
        if (!good) { print $1 ":" $2 ": " product " must not include " header > "/dev/stderr"; bad++ }
    }
    END { print count " includes between " length(owner) " folders"; exit bad != 0 }
' tests/products.txt - <(includes $folders) || failures=$((failures + 1))
for folder in core allocators bindings/*/ benchmarks/*/; do
    grep -qE "[| ]${folder%/}( |$)" tests/products.txt || [[ $folder == benchmarks/* ]] || complain "$folder is no product's (tests/products.txt)"
done

# Inside the pool.
while IFS=$'\t' read -r file line header; do
    case $header in
    '<weir/'*) [ -e "core/include/${header:1:-1}" ] || complain "$file:$line: core must not include $header" ;;
    '"'*) [[ $header != *..* ]] && find core -path "*/${header:1:-1}" | grep -q . || complain "$file:$line: core must not include $header" ;;
    esac
done < <(includes core)
while IFS=$'\t' read -r file line header; do # a strategy sees integers: no thread, no clock, no device
    case $header in
    '<weir/base.h>' | '<weir/strategy.h>' | '"shared/assert.h"') ;;
    '<weir/'*) [ -e "allocators/include/${header:1:-1}" ] || complain "$file:$line: a strategy must not include $header" ;;
    '"'*) [ -e "${file%/*}/${header:1:-1}" ] || complain "$file:$line: a strategy must not include $header" ;;
    '<pthread.h>' | '<threads.h>' | '<time.h>' | '<sys/time.h>' | '<stdatomic.h>') complain "$file:$line: a strategy must not include $header" ;;
    esac
done < <(includes allocators)
while IFS=$'\t' read -r file line header; do
    [ ! -e "allocators/include/${header:1:-1}" ] || complain "$file:$line: only host and torch choose a strategy, not $header"
done < <(includes bindings | grep -vE '^bindings/(host/pool|torch|ascend/torch|cuda/torch)/')

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
