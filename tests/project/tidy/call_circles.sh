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
# floor. A call is looked up in its own library first and then in the product, because two libraries may each define a
# function of the same name.
PRODUCTS='
core       | core/src                         | base device state order memory pool report services
allocators | allocators/src                   |
sim        | bindings/sim/src                 |
pinned     | bindings/host/pool/src           |
heap       | bindings/host/heap/src           |
jemalloc   | bindings/host/jemalloc/src       |
onnx       | bindings/host/engines/onnxruntime/src |
xnnpack    | bindings/host/engines/xnnpack/src |
torch      | bindings/torch/src               |
torch_acl  | bindings/ascend/torch/src        |
torch_cuda | bindings/cuda/torch/src          |
acl        | bindings/ascend/acl/src          |
ascendcl   | bindings/ascendcl/src            |
cuda       | bindings/cuda/device/src         |
mstx       | bindings/ascend/mstx             |
record     | benchmarks/weir/record/src       |
trace      | benchmarks/weir/trace            |
models     | benchmarks/weir/models           |
replay     | benchmarks/weir/replay           |
library    | benchmarks/weir/library          |
command    | benchmarks/weir/command          |
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
    # Returns the product of a file by its path, or "".
    function product_of(path,    product) {
        for (product in folder) if (index(path, folder[product]) == 1) { return product }
        return ""
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
            goes_up = floor_of(files[part[1]], part[1]) < floor_of(files[part[2]], part[2])
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
        for (room in rowless) { print "no product has " room }
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
