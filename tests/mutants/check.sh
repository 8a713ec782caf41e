#!/usr/bin/env bash
# Checks that the seeds fit the sources and that the table in README.md agrees with the seeds.
#
#   check.sh SOURCE_DIR                  complains about seeds and lines that do not fit; ignores the column of seconds
#   check.sh SOURCE_DIR RESULTS_DIR...   writes the table anew, with the seconds that the last runs have left there
set -euo pipefail
cd "$1"
shift
folder=tests/mutants
readme=$folder/README.md
failures=0

complain() { echo "$1" >&2; failures=$((failures + 1)); }
value() { sed -nE "/^--- /q; s/^$1: *//p" "$2"; } # KEY SEED
sources() { sed -nE 's/^--- //p' "$1" | sort -u; } # SEED

seeds=()
for group in S T O V P X W; do
    while IFS= read -r seed; do seeds+=("$seed"); done < <(find $folder/seeds -name "$group[0-9]*.diff" | sort -V)
done
[ ${#seeds[@]} = "$(find $folder/seeds -type f | wc -l)" ] || complain "$folder/seeds holds a file of no group"

# Each seed is complete, and changes only code that its own name switches on.
for seed in "${seeds[@]}"; do
    name=$(basename "$seed" .diff)
    for key in bug killer finding; do
        [ -n "$(value $key "$seed")" ] || complain "$seed has no $key"
    done
    [ -n "$(sources "$seed")" ] || complain "$seed names no source"
    [ "$(grep -E '^\+' "$seed" | grep -oE 'MUTANT\([A-Za-z0-9]*\)' | sort -u)" = "MUTANT($name)" ] ||
        complain "$seed does not ask for MUTANT($name), or for another one too"
done

# All seeds fit into each source, in the order in which a build applies them.
while IFS= read -r source; do
    if [ ! -f "$source" ]; then
        complain "there is no $source"
    elif ! awk -v path="$source" -f $folder/seed.awk $folder/seeds/*.diff "$source" >/dev/null; then
        failures=$((failures + 1))
    fi
done < <(for seed in "${seeds[@]}"; do sources "$seed"; done | sort -u)

row() { # SEED SECONDS
    local files
    files=$(sources "$1" | sed 's,/src/,/,; s,.*,`&`,' | paste -sd, | sed 's/,/, /g')
    # A bar would end the table's cell.
    printf '| %s | %s | %s | `%s` | %s | %s |\n' "$(basename "$1" .diff)" "$(value bug "$1")" "$files" \
        "$(value killer "$1")" "$(value finding "$1" | sed 's/|/\\|/g')" "$2"
}

seconds() { # NAME RESULTS_DIR...
    local name=$1 dir
    shift
    for dir in "$@"; do
        [ -f "$dir/$name.killed" ] && { printf '%.1f' "$(cat "$dir/$name.killed")"; return; }
    done
    sed -nE "s/^\| $name \|.*\| ([0-9.]+) \|\$/\1/p" $readme
}

table() { # RESULTS_DIR...
    local seed
    for seed in "${seeds[@]}"; do
        row "$seed" "$(seconds "$(basename "$seed" .diff)" "$@")"
    done
}

row_begins='^| [STOVPXW][0-9]*[a-z]* | .* | `'
rows() { grep "$row_begins" $readme; }
without_seconds() { sed -E 's/ [0-9.]* \|$/ |/'; }

if [ $# -gt 0 ]; then
    fresh=$(mktemp)
    {
        sed "/$row_begins/,\$d" $readme
        table "$@"
        sed "1,/$row_begins/d; /$row_begins/d" $readme
    } >"$fresh"
    cat "$fresh" >$readme
    rm "$fresh"
elif ! difference=$(diff <(rows | without_seconds) <(table | without_seconds)); then
    complain "$readme differs from the seeds: $folder/check.sh . build/mutants/$folder build/mutants-tsan/$folder"
    echo "$difference" >&2
fi

[ $failures = 0 ] && echo "${#seeds[@]} seeds fit" || exit 1
