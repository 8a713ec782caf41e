#!/usr/bin/env bash
# Files of a product that call each other in a circle, and calls and includes that go up between its floors.
#   call_circles.sh [--list] SOURCE_DIR BUILD_DIR OBJECT...
# A file calls another file if its object leaves a symbol undefined that the other object defines. A circle is a set of
# files in which each file reaches every other one by calls; a circle of more than five files fails. A file calls its own
# floor and the floors below, and includes headers of these alone. --list prints every call between files and every circle.
set -euo pipefail
list=0
[ "${1:-}" != --list ] || { list=1; shift; }
source_dir=$1 build_dir=$2
shift 2

# A product is a line here:  name | its folder | the folders in that folder, from the ground up
# Each folder in it is a floor; a dot stands for the files that lie in no such folder. Without floors the product is one
# floor. A folder of objects that no line names fails. A call is looked up in its own library first and then in the
# product, because two libraries may each define a function of the same name.
PRODUCTS='
core       | core/src               | base device state order memory pool report services
shared     | core/shared            |
allocators | allocators/src         |
sim        | bindings/sim/src       |
host       | bindings/host          | pool heap jemalloc engines
malloc     | bindings/host/preload  |
torch      | bindings/torch/src     |
ascendcl   | bindings/ascendcl/src  | model base tasks streams memory actions executors process .
ascend     | bindings/ascend        | acl torch
mstx       | bindings/ascend/mstx   |
cuda       | bindings/cuda          | device torch
command    | benchmarks/weir        | trace models record replay library command
preload    | benchmarks/weir/record/preload |
'

# Functions of awk that both checks use.
place='
    function read_table(table,    lines, count, i, cell, floors, m, j) {
        count = split(table, lines, "\n")
        for (i = 1; i <= count; i++) if (split(lines[i], cell, / *\| */) >= 2) {
            folder[cell[1]] = cell[2] "/"
            has_floors[cell[1]] = m = split(cell[3], floors, " ")
            for (j = 1; j <= m; j++) { height[cell[1], floors[j]] = j }
        }
    }
    # Returns the product of a file by its path, or "": of the folders that hold the file, the innermost one.
    function product_of(path,    product, best, most) {
        for (product in folder) if (index(path, folder[product]) == 1 && length(folder[product]) > most) {
            best = product
            most = length(folder[product])
        }
        return best
    }
    # Returns the number of the floor of a file: 1 is the ground, 0 is no floor of the table.
    function floor_of(product, path,    below) {
        below = substr(path, length(folder[product]) + 1)
        if (!sub(/\/.*/, "", below)) { below = "." }
        return has_floors[product] ? height[product, below] + 0 : 1
    }
    function complain(text) { print text > "/dev/stderr"; bad++ }
    BEGIN { read_table(table) }
'
status=0

nm -A "$@" | awk -v list="$list" -v table="$PRODUCTS" -v build="$build_dir/" -v most=5 "$place"'
    {
        file = $0
        sub(/:.*/, "", file)
        if (file != last) {
            last = path = file
            if (index(path, build) == 1) { path = substr(path, length(build) + 1) }
            gsub(/\/\.\//, "/", path)
            library = match(path, /\/CMakeFiles\/[^\/]*\.dir/) ? substr(path, RSTART + 12, RLENGTH - 16) : ""
            sub(/\/CMakeFiles\/[^\/]*\.dir/, "", path)
            sub(/\.[a-z]*\.o$/, "", path)
            while (sub(/[^\/]*[^\/_]\/__\//, "", path)) { continue } # a source of another folder
            product = product_of(path)
            if (product == "") { room = path; sub(/\/[^\/]*$/, "", room); rowless[room] = 1; next }
            files[path] = product
            libraries[product, library] = library
        }
        if (product == "") { next }
        if ($(NF - 1) == "U") { calls[path, library, $NF] = product }
        else if ($(NF - 1) ~ /^[A-Z]$/) {
            home[library, $NF] = path
            common[product, $NF] = path
        }
    }
    END {
        for (call in calls) {
            split(call, part, SUBSEP)
            from = part[1]
            to = home[part[2], part[3]]
            if (to == "") { to = common[calls[call], part[3]] }
            if (to != "" && to != from) {
                reach[from, to] = 1
                why[from "->" to] = why[from "->" to] " " part[3]
            }
        }
        for (file in files) if (floor_of(files[file], file) == 0) { complain(file " is on no floor of " files[file]) }
        for (arrow in why) {
            split(arrow, part, "->")
            product = files[part[1]]
            goes_up = product == files[part[2]] && floor_of(product, part[1]) < floor_of(product, part[2])
            if (list) { print (goes_up ? "up  " : "down"), arrow ":" why[arrow] }
            if (goes_up) { complain(arrow " goes up:" why[arrow]) }
        }
        for (k in files) for (i in files) if ((i, k) in reach) {
            for (j in files) if ((k, j) in reach) { reach[i, j] = 1 }
        }
        for (i in files) {
            count[files[i]]++
            if (i in done) { continue }
            size = 0
            members = ""
            for (j in files) {
                if (j == i || ((i, j) in reach && (j, i) in reach)) { size++; members = members " " j; done[j] = 1 }
            }
            if (size > 1 && list) { print "circle of " size ":" members }
            if (size > most) { complain("a circle of " size " files, of " most " at most:" members) }
            if (size > largest[files[i]]) { largest[files[i]] = size }
        }
        for (product in count) {
            print product ": " count[product] " files, the largest circle has " largest[product]
        }
        for (room in rowless) { complain("no product has " room) }
        exit bad != 0
    }' || status=1

# A header of a floor is written with the name of the floor: "state/clock.h".
cd "$source_dir"
folders=$(awk -F' *[|] *' '$3 != "" { print $2 }' <<<"$PRODUCTS")
# shellcheck disable=SC2086
grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"[^"]*/' $folders --include='*.[ch]' | awk -v table="$PRODUCTS" "$place"'
    {
        path = $0
        sub(/:.*/, "", path)
        line = $0
        sub(/:[^:]*$/, "", line)
        header = $0
        sub(/^[^"]*"/, "", header)
        sub(/".*/, "", header)
        product = product_of(path)
        if (floor_of(product, path) < floor_of(product, folder[product] header)) {
            complain(line " includes " header ", of a floor above")
        }
    }
    END { exit bad != 0 }' || status=1
exit $status
