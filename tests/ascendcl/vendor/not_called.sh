#!/usr/bin/env bash
# Prints the families of ACL functions that no random program calls. Every such function fits a row of not_called.txt, and every row
# has such a function. A program over a pool also calls what weir::acl calls.    not_called.sh
set -euo pipefail
cd "$(dirname "$0")"
{
    grep -ohE '\bacl\w+\(' random_*.c ../../ascend/vendor/random_pool.c | tr -d '('
    grep -ohE '\bacl\w+' ../../../bindings/ascend/acl/src/*.c
} | awk -F'\t' '
    FILENAME == "-" { called[$1] = 1; next }
    FILENAME ~ /not_called/ && /^[^#]/ {
        if (NF != 3) { print "a row without three fields: " $0; failures++ }
        family[++rows] = $1; pattern[rows] = $2; reason[rows] = $3
    }
    FILENAME ~ /acl_abi/ && /^function / {
        name = substr($1, 10)
        sub(/:.*/, "", name)
        functions++
        if (called[name]) { next }
        for (row = 1; row <= rows && name !~ "^(" pattern[row] ")$"; row++) { }
        if (row > rows) { print "no random program calls it, and no row explains that: " name; failures++ }
        count[row]++
    }
    END {
        for (row = 1; row <= rows; row++) {
            if (count[row] == 0) { print "a row without a function: " family[row]; failures++ }
            printf "%d of %s: %s\n", count[row], family[row], reason[row]
            left += count[row]
        }
        printf "%d of %d functions are called\n", functions - left, functions
        exit failures > 0 || functions == 0
    }' - not_called.txt ../abi/acl_abi.txt
