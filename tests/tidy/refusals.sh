#!/usr/bin/env bash
# A public function that returns WEIR_ERR_INVALID, WEIR_ERR_BUSY or WEIR_ERR_UNSUPPORTED gives its sentence.
#   refusals.sh SOURCE_DIR
# Inside a function of the interface (weir_NAME, not weir__NAME) a line that names one of the three as a result stands in a
# statement with "refuse" in it: weir_refuse, or a function that makes the sentence. Comparisons, case labels and comments are
# no results. A result that is assigned may get its sentence anywhere in the function. Functions behind the interface may
# return a bare status; their callers make the sentence. weir_..._status translates codes. weir_ranges_... stand in the table
# of a strategy: they answer the pool, whose calls that succeed leave no sentence.
set -euo pipefail
cd "$1"
find core/src allocators/src bindings/*/*/src -name '*.c' | sort | xargs awk '
    function complain(where) { print where > "/dev/stderr"; bad++ }
    function end_of_function() {
        if (assigned != "" && !refuses) { complain(assigned) }
        assigned = ""
        refuses = 0
    }
    FNR == 1 { end_of_function(); statement = name = ""; comment = 0 }
    /^[a-z].*\(/ { end_of_function(); name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
    /refuse/ { refuses = 1 }
    {
        line = $0
        if (comment && !sub(/^.*\*\//, "", line)) { next }
        comment = 0
        gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
        if (sub(/\/\*.*$/, "", line)) { comment = 1 }
        gsub(/([!=]=|case) *WEIR_ERR_[A-Z]*/, "", line)
        statement = statement line
        if (line ~ /WEIR_ERR_(INVALID|BUSY|UNSUPPORTED)/ && name ~ /^weir_[a-z]/ && name !~ /_status$|^weir_ranges_/) {
            count++
            here = FILENAME ":" FNR ": " name ":" $0
            if (line ~ / = .*WEIR_ERR/) { assigned = here } else if (statement !~ /refuse/) { complain(here) }
        }
        if (line ~ /[;{}]/) { statement = "" }
    }
    END {
        end_of_function()
        if (bad) { print bad " results without a sentence" > "/dev/stderr"; exit 1 }
        if (!count) { print "no refusal found" > "/dev/stderr"; exit 1 }
        print count " refusals, each with a sentence"
    }'
