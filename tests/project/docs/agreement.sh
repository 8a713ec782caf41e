#!/usr/bin/env bash
# The options that the command accepts are those of --help, of the manual pages, and of README files and pages. Names of
# weir that these texts mention exist.
#   agreement.sh SOURCE_DIR WEIR OPTIONS_LIBRARY MANDOC
set -euo pipefail
source_dir=$1 weir=$2 options=$3 mandoc=${4:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$source_dir"
failures=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }

same() { # SUBJECT FILE_A NAME_A FILE_B NAME_B
    local line
    while read -r line; do complain "$1: $line is in $3 and not in $5"; done < <(comm -23 "$2" "$4")
    while read -r line; do complain "$1: $line is in $5 and not in $3"; done < <(comm -13 "$2" "$4")
}

names() { grep -oE -- '(^|[^-A-Za-z0-9])--?[A-Za-z][-A-Za-z]*' | grep -oE -- '-.*' | sort -u || true; }

# The options of a manual page: "Fl Fl name" is --name, "Fl n" is -n.
manual() { # PAGE LINES_THAT_BEGIN_WITH
    awk -v want="$2" 'index($0, want) == 1 {
        sub(/^[.]/, "")
        for (i = 1; i <= NF; i++) {
            if ($i != "Fl") continue
            if ($(i + 1) == "Fl") { print "--" $(i + 2); i += 2 }
            else { print "-" $(i + 1); i++ }
        }
    }' "$1" | sort -u
}

# --- subcommands: each has a function ---

sed -nE 's/^int command_([a-z]+)\(.*/\1/p' benchmarks/weir/command/command.h | sort >"$scratch/there"
"$weir" --help | sed -nE 's/^  weir ([a-z]+) .*/\1/p' |
    grep -vxE 'help|version' | sort >"$scratch/help" # these two have no page and no options
find docs/man -name 'weir-*.1' | sed -E 's/.*weir-(.*)\.1/\1/' | sort >"$scratch/manual"
sed -nE 's/^\.It Nm weir Cm ([a-z]+).*/\1/p' docs/man/weir.1 | sort >"$scratch/listed"
("$weir" nosuchsubcommand 2>&1 || true) | sed 's/.*there are//; s/(.*//; s/and//; s/,//g' |
    tr -s ' ' '\n' | sed '/^$/d' | sort >"$scratch/refusal"
[ -s "$scratch/there" ] || complain 'no subcommand found in benchmarks/weir/command/command.h'
same subcommands "$scratch/there" command.h "$scratch/help" 'weir --help'
same subcommands "$scratch/there" command.h "$scratch/manual" docs/man
same subcommands "$scratch/there" command.h "$scratch/listed" 'weir(1)'
same subcommands "$scratch/there" command.h "$scratch/refusal" 'the answer to an unknown subcommand'

# --- options ---

while read -r name; do
    "$weir" "$name" --help >"$scratch/text" || complain "weir $name --help fails"
    # The option ends at the first gap of two blanks; after it comes the description.
    grep -E '^ +-' "$scratch/text" | sed -E 's/^ +//; s/  .*//' | names >"$scratch/$name.help"
    ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 LD_PRELOAD=$options "$weir" "$name" x </dev/null 2>&1 | grep '^-' |
        sort -u >"$scratch/$name.accepted" || true
    [ -s "$scratch/$name.accepted" ] || complain "weir $name does not parse its options with getopt_long"
    manual "docs/man/weir-$name.1" '.It Fl' >"$scratch/$name.manual"
    same "weir $name" "$scratch/$name.accepted" 'the parser' "$scratch/$name.help" '--help'
    same "weir $name" "$scratch/$name.accepted" 'the parser' "$scratch/$name.manual" 'the manual page'
    # The synopsis has each option in one of its forms, and no other option. Help may be missing.
    manual "docs/man/weir-$name.1" '.Op' >"$scratch/synopsis"
    manual "docs/man/weir-$name.1" '.Fl' >>"$scratch/synopsis"
    while read -r option; do
        grep -qxF -- "$option" "$scratch/$name.accepted" || complain "weir-$name(1): the synopsis has $option"
    done <"$scratch/synopsis"
    while read -r line; do
        found=no
        for option in $(tr ',' '\n' <<<"$line" | names); do
            if [ "$option" = --help ] || grep -qxF -- "$option" "$scratch/synopsis"; then found=yes; fi
        done
        [ $found = yes ] || complain "weir-$name(1): the synopsis lacks $line"
    done < <(grep -E '^ +-' "$scratch/text" | sed -E 's/^ +//; s/  .*//')
done <"$scratch/there"

"$weir" --help | grep -E '^  weir -' | sed -E 's/^  //; s/;/  /' | names >"$scratch/weir.help"
"$weir" --help | grep -oE -- ' -h ' | tr -d ' ' | sort -u >>"$scratch/weir.help"
sort -u -o "$scratch/weir.help" "$scratch/weir.help"
manual docs/man/weir.1 '.It Fl' >"$scratch/weir.manual"
same weir "$scratch/weir.help" 'weir --help' "$scratch/weir.manual" 'weir(1)'
while read -r option; do
    "$weir" "$option" >/dev/null || complain "weir $option is documented and not accepted"
done <"$scratch/weir.manual"

# --- the command lines in README files, pages and help texts ---

mapfile -t texts < <(find . \( -name build -o -name .git \) -prune -o \
    \( -name '*.md' -o -path './docs/man/*.[1-9]' \) -print | sort)
used() { # "FILE SUBCOMMAND OPTION" for each command line of `weir` in a text, fenced, indented or between backquotes
    awk '{
        line = $0
        while (match(line, /(^|[\/ `$(])weir [a-z]+ [^`|;)]*/)) {
            words = substr(line, RSTART, RLENGTH)
            line = substr(line, RSTART + RLENGTH)
            sub(/^.*weir /, "", words)
            n = split(words, word, /[ \t]+/)
            for (i = 2; i <= n; i++) {
                if (word[i] == "--") break # the rest is the line of another program
                if (word[i] ~ /^--?[a-z]/) { sub(/[=\[\\,.].*/, "", word[i]); print FILENAME, word[1], word[i] }
            }
        }
    }' "$@"
}
commands=0
while read -r file name option; do
    [ -e "$scratch/$name.accepted" ] || continue # prose
    commands=$((commands + 1))
    grep -qxF -- "$option" "$scratch/$name.accepted" || complain "$file uses weir $name $option, which is not accepted"
done < <(used "${texts[@]}")
[ $commands -gt 10 ] || complain 'hardly a command line found in README files and pages'
for option in $(sed -nE 's/^\| `(--[a-z-]+).*/\1/p' benchmarks/weir/README.md); do # the options in its table
    grep -qxF -- "$option" "$scratch/replay.accepted" || complain "benchmarks/weir/README.md explains $option"
done

# --- names: weir_... are declared in a public header, weir__... and WEIR_... stand in some source ---

for header in {core,allocators,bindings/{*,*/*,*/*/*},benchmarks/weir/*}/include/weir/*.h* tests/pool/contract/{device,strategy}_contract.h; do
    [ ! -e "$header" ] || awk -f docs/doxygen/header.awk "$header"
done | tr '\n' ' ' | sed -E 's,/\*([^*]|\*+[^*/])*\*+/, ,g' | grep -oE '\b(weir|WEIR)_[A-Za-z0-9_]+' | sort -u >"$scratch/public"
[ "$(wc -l <"$scratch/public")" -gt 400 ] || complain 'hardly a name found in the public headers'
find . \( -name build -o -name .git \) -prune -o -type f ! -name '*.md' ! -path './docs/man/*' ! -name '*.xz' -print0 |
    xargs -0 grep -ohIE '\b(weir__|WEIR_)[A-Za-z0-9_]+' | sort -u >"$scratch/inside"
while IFS=: read -r file name; do
    case $name in
    *.so | *.c | *.cpp | *.h | *.hpp | *.map | WEIR_[0-9].*) continue ;; # files, nodes of the export map
    esac
    name=${name%%.*}
    case $name in
    *_) grep -qE "^$name" "$scratch/public" "$scratch/inside" && continue ;;
    WEIR_ASCENDCL_*) grep -q "\"${name#WEIR_ASCENDCL_}" bindings/ascendcl/src/base/config.c && continue ;;& # read by prefix
    weir__* | WEIR_*) grep -qxF "$name" "$scratch/inside" "$scratch/public" && continue ;;
    weir_command | weir_mstx_check | weir_npm | weir_wheel) continue ;; # targets
    *) grep -qxF "$name" "$scratch/public" && continue
        grep -qsw "$name" bindings/*/*/shim/*.cpp bindings/cuda/torch/src/cuda_host.cc && continue ;; # their signatures are of C++
    esac
    complain "$file names $name, which there is not"
done < <(grep -oE '\b(weir|WEIR)_[A-Za-z0-9_]+([.][a-z0-9]+)?' "${texts[@]}" | grep -v '^./CHANGELOG' | sort -u)

# --- weir(3) lists exactly the public headers ---

find core allocators bindings benchmarks -path '*/include/weir/*.h*' | sed 's,.*/include/,,' | sort -u >"$scratch/headers"
sed -nE 's/^\.It In (.*)/\1/p' docs/man/weir.3 | sort -u >"$scratch/listed"
same headers "$scratch/headers" 'the include folders' "$scratch/listed" 'weir(3)'

# --- manual pages: mandoc finds nothing, and the trace format is the one of the README ---

grammar() { # PAGE: its literal blocks
    awk '/^[.]Ed/ { on = 0 } on { print } /^[.]Bd -literal$/ { on = 1 }' "$1" | sed 's/\\e/\\/g; s/^\\&//'
}
diff -u --label benchmarks/weir/trace/README.md --label docs/man/weir-trace.5 \
    <(awk '/^```/ { fence = !fence; bare = fence && $0 == "```"; next } bare' benchmarks/weir/trace/README.md |
        sed -n '/^#wtr 1/,/^v T/p') \
    <(grammar docs/man/weir-trace.5) >&2 || complain 'weir-trace(5) is not the format'
if [ -x "$mandoc" ]; then
    for page in docs/man/*.[1-9]; do
        "$mandoc" -Tlint -W warning "$page" >&2 || complain "$page: mandoc warns"
    done
else
    echo 'there is no mandoc (script/bootstrap test): the form of the manual pages has not been looked at'
fi

[ $failures = 0 ] || exit 1
echo "$(wc -l <"$scratch/there") subcommands, $(cat "$scratch"/*.accepted | wc -l) options, $commands command lines: in agreement"
