#!/usr/bin/env bash
# Files of core that call each other in a circle, and calls that go up between the floors of core.
#   call_circles.sh [--list] OBJECT...
# A file calls another file if its object leaves a symbol undefined that the other object defines. A circle is a set of
# files in which each file reaches every other one by calls; a circle of more than five files fails. FLOORS lists the
# folders of core/src from the ground up: a file may call its own floor and the floors below.
# --list prints every call between files and every circle.
set -euo pipefail
list=0
[ "${1:-}" != --list ] || { list=1; shift; }
FLOORS='base device state order memory pool report services'
nm -A "$@" | awk -v list="$list" -v floors="$FLOORS" -v most=5 '
    function complain(text) { print text > "/dev/stderr"; bad++ }
    function floor_of(file,    room) {
        room = file
        sub(/\/.*/, "", room)
        if (!(room in floor)) { complain(file " is on no floor"); floor[room] = 0 }
        return floor[room]
    }
    {
        file = $0
        sub(/:.*/, "", file)
        sub(/.*\/src\//, "", file)
        sub(/\.c\.o$/, "", file)
        files[file] = 1
        if ($(NF - 1) == "U") { calls[file, $NF] = 1 }
        else if ($(NF - 1) ~ /^[A-Z]$/) { home[$NF] = file }
    }
    END {
        n = split(floors, names, " ")
        for (i = 1; i <= n; i++) { floor[names[i]] = i }
        for (pair in calls) {
            split(pair, part, SUBSEP)
            to = home[part[2]]
            if (to != "" && to != part[1]) {
                reach[part[1], to] = 1
                why[part[1] "->" to] = why[part[1] "->" to] " " part[2]
            }
        }
        for (arrow in why) {
            split(arrow, part, "->")
            goes_up = floor_of(part[1]) < floor_of(part[2])
            if (list) { print (goes_up ? "up  " : "down"), arrow ":" why[arrow] }
            if (goes_up) { complain(arrow " goes up:" why[arrow]) }
        }
        for (k in files) for (i in files) if ((i, k) in reach) {
            for (j in files) if ((k, j) in reach) { reach[i, j] = 1 }
        }
        for (i in files) {
            if (i in done) { continue }
            size = 0
            members = ""
            for (j in files) {
                if (j == i || ((i, j) in reach && (j, i) in reach)) { size++; members = members " " j; done[j] = 1 }
            }
            if (size > 1 && list) { print "circle of " size ":" members }
            if (size > most) { complain("a circle of " size " files, of " most " at most:" members) }
            if (size > largest) { largest = size }
        }
        print length(files) " files, the largest circle has " largest
        exit bad != 0
    }'
