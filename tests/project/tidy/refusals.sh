#!/usr/bin/env bash
# A public function that returns WEIR_ERR_INVALID, WEIR_ERR_BUSY or WEIR_ERR_UNSUPPORTED makes a sentence for it.
#   refusals.sh SOURCE_DIR
# In a function of the interface (weir_NAME, not weir__NAME), a line that names one of the three as a result must be in a
# statement with "refuse" in it: weir_refuse, or a function that makes the sentence. Comparisons, case labels and comments
# are no results. If a result is assigned, the sentence may be made anywhere in the function. Functions behind the interface
# may return a bare status; their callers make the sentence. Exceptions: weir_..._status translates codes, and
# weir_ranges_... are slots of a strategy, called only by the pool, which leaves no sentence after a call that succeeds.
set -euo pipefail
cd "$1"
find core/src allocators/src bindings/{*,*/*,*/*/*}/src benchmarks/weir/*/src -name '*.c' | sort | xargs awk '
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
