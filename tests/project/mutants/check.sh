#!/usr/bin/env bash
# Checks that the seeds fit the sources and that the table in README.md agrees with the seeds.
#
#   check.sh SOURCE_DIR                  complains about seeds and lines that do not fit; ignores the column of seconds
#   check.sh SOURCE_DIR RESULTS_DIR...   writes the table anew, with the seconds that the last runs have left there
set -euo pipefail
cd "$1"
shift
folder=tests/project/mutants
readme=$folder/README.md
failures=0

complain() { echo "$1" >&2; failures=$((failures + 1)); }

seeds=()
for group in S T O V Z P X W G H A N C F M D L Y; do
    while IFS= read -r seed; do seeds+=("$seed"); done < <(find $folder/seeds -name "$group[0-9]*.diff" | sort -V)
done
[ ${#seeds[@]} = "$(find $folder/seeds -type f | wc -l)" ] || complain "$folder/seeds holds a file of no group"

# Prints the rows of the table. Complains about a seed that is incomplete, or that changes code which another name
# switches on. The column of seconds comes from a run's results, else from the present table.
table() { # RESULTS_DIR...
    awk -v readme="$readme" -v results="$*" '
        function complain(text) { print path " " text > "/dev/stderr"; failed = 1 }
        function seconds(    dirs, count, i, line) {
            count = split(results, dirs, " ")
            for (i = 1; i <= count; i++)
                if ((getline line < (dirs[i] "/" name ".killed")) > 0) return sprintf("%.1f", line)
            return known[name]
        }
        function finish(    i, files) {
            if (value["bug"] == "") complain("has no bug")
            if (value["killer"] == "") complain("has no killer")
            if (value["finding"] == "") complain("has no finding")
            if (sources == 0) complain("names no source")
            if (in_program ? mutants != "MUTANT(" name ")" : mutants != "") complain("does not ask for MUTANT(" name "), or for another one too")
            for (i = 1; i <= sources; i++) {
                sub("/src/", "/", source[i])
                files = files (i > 1 ? ", " : "") "`" source[i] "`"
            }
            gsub(/\|/, "\\|", value["finding"]) # a bar would end the cell
            printf "| %s | %s | %s | `%s` | %s | %s |\n", name, value["bug"], files, value["killer"],
                value["finding"], seconds()
        }
        function add_source(file,    i, k) { # keeps the sources sorted, each once
            for (i = 1; i <= sources && source[i] < file; i++) continue
            if (i <= sources && source[i] == file) return
            for (k = ++sources; k > i; k--) source[k] = source[k - 1]
            source[i] = file
        }
        BEGIN {
            while ((getline line < readme) > 0)
                if (line ~ /^\| [A-Z][0-9]+[a-z]* \|.*\| [0-9.]+ \|$/) {
                    count = split(line, word, " ")
                    known[word[2]] = word[count - 1]
                }
        }
        FNR == 1 {
            if (NR > 1) finish()
            path = name = FILENAME
            sub(/.*\//, "", name)
            sub(/\.diff$/, "", name)
            sources = in_program = 0
            mutants = value["bug"] = value["killer"] = value["finding"] = ""
        }
        /^--- / { add_source(substr($0, 5)); in_program = in_program || /[.](c|h|cc)$/ }
        sources == 0 && match($0, /^(bug|killer|finding): */) {
            value[substr($0, 1, index($0, ":") - 1)] = substr($0, RLENGTH + 1)
        }
        /^\+/ {
            while (match($0, /MUTANT\([A-Za-z0-9]*\)/)) {
                found = substr($0, RSTART, RLENGTH)
                $0 = substr($0, RSTART + RLENGTH)
                if (index(mutants, found) == 0) mutants = mutants found
            }
        }
        END { finish(); exit failed }' "${seeds[@]}"
}

# All seeds fit into each source, in the order in which a build applies them.
while IFS= read -r source; do
    if [ ! -f "$source" ]; then
        complain "there is no $source"
    elif ! awk -v path="$source" -f $folder/seed.awk $folder/seeds/*.diff "$source" >/dev/null; then
        failures=$((failures + 1))
    fi
done < <(sed -nE 's/^--- //p' "${seeds[@]}" | sort -u)

rows=$(table "$@") || failures=$((failures + 1))

row_begins='^| [A-Z][0-9]*[a-z]* | .* | `'
without_seconds() { sed -E 's/ [0-9.]* \|$/ |/'; }

if [ $# -gt 0 ]; then
    fresh=$(mktemp)
    {
        sed "/$row_begins/,\$d" $readme
        echo "$rows"
        sed "1,/$row_begins/d; /$row_begins/d" $readme
    } >"$fresh"
    cat "$fresh" >$readme
    rm "$fresh"
elif ! difference=$(diff <(grep "$row_begins" $readme | without_seconds) <(echo "$rows" | without_seconds)); then
    complain "$readme differs from the seeds: $folder/check.sh . build/mutants{,-asan,-tsan}/$folder"
    echo "$difference" >&2
fi

[ $failures = 0 ] && echo "${#seeds[@]} seeds fit" || exit 1
