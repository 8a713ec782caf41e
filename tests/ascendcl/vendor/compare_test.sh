#!/usr/bin/env bash
# compare.awk finds what differs, and random programs print the same whatever the device's speed.
#   compare_test.sh PROGRAM CAPTURES
#   WEIR_PROGRAMS in the environment is the number of programs (100).
set -euo pipefail
cd "$(dirname "$0")"
program=$1 captures=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# check STATUS TEXT...: compares $scratch/a with $scratch/b and the table $scratch/known.
check() {
    local status=0 wanted=$1 text
    shift
    awk -f compare.awk -v second="$scratch/b" "$scratch/known" "$scratch/a" >"$scratch/out" || status=$?
    [ "$status" = "$wanted" ] || { echo "status $status in place of $wanted:"; cat "$scratch/out"; exit 1; }
    for text in "$@"; do
        grep -qxF -- "$text" "$scratch/out" || { echo "no line '$text' in:"; cat "$scratch/out"; exit 1; }
    done
}

# --- made-up answers ---
printf '%s\n' '1.0 open: 0' '1.1 copy 7: 3' '1.2 close: 0' '2.0 open: 0' '2.1 free x: 1: 2' '10.0 open: 0' >"$scratch/a"
cp "$scratch/a" "$scratch/b"
echo '# nothing' >"$scratch/known"
check 0 '3 programs, 6 answers, 0 unexplained differences'

sed -i 's/copy 7: 3/copy 7: 4/' "$scratch/b"
check 1 '1.1 copy 7: 3 | 4' '3 programs, 6 answers, 1 unexplained differences'
printf 'copy [0-9]\t3\t4\tthe reason\n' >>"$scratch/known"
check 0 'known, 1 times: copy [0-9]: 3 | 4: the reason' '3 programs, 6 answers, 0 unexplained differences'
sed -i 's/copy 7: 4/copy 7: 5/' "$scratch/b" # another answer than the table's
check 1 '1.1 copy 7: 3 | 5'
sed -i 's/copy 7: 5/copy 7: 4/; s/^1.0 open: 0/1.0 open copy 7: 4/' "$scratch/b" # another call
check 1 'two ways: 1.0 open: 0 | 1.0 open copy 7: 4' '3 programs, 4 answers, 1 unexplained differences'

cp "$scratch/a" "$scratch/b"
sed -i '/^1.2/d' "$scratch/b" # the second ends a program early; the next one is compared again
check 1 'only the first: 1.2 close: 0' '3 programs, 5 answers, 1 unexplained differences'
sed -i 's/^2.1 free x: 1: 2/&\n2.2 more: 0/' "$scratch/b" # and has more in the next
check 1 'only the first: 1.2 close: 0' 'only the second: 2.2 more: 0' '3 programs, 5 answers, 2 unexplained differences'
head -n 2 "$scratch/a" >"$scratch/b" # it died
check 1 'only the first: 1.2 close: 0' 'only the first: 2.0 open: 0' 'only the first: 10.0 open: 0'
: >"$scratch/b"
check 1 'only the first: 1.0 open: 0'
cp "$scratch/a" "$scratch/b"
: >"$scratch/a"
check 1
cp "$scratch/b" "$scratch/a"
echo 'a row without tabs' >>"$scratch/known"
check 1 'a row without four fields: a row without tabs'

# --- the table that random.sh uses has four fields in each row ---
cp known_differences.txt "$scratch/known"
check 0 '3 programs, 6 answers, 0 unexplained differences'

# --- the simulated runtime with itself, with other durations of its work ---
export WEIR_ASCENDCL_REPORT=none
echo '# nothing' >"$scratch/known"
count=${WEIR_PROGRAMS:-100}
"$program" "$count" >"$scratch/a"
WEIR_ASCENDCL_SEED=7 WEIR_ASCENDCL_COSTS=launch=400000,fill_per_mib=3000000 "$program" "$count" >"$scratch/b"
check 0
tail -n 1 "$scratch/out"
answers=$(wc -l <"$scratch/a")
[ "$answers" -gt $((100 * count)) ] || { echo "only $answers answers"; exit 1; }
# An injected failure is a difference.
WEIR_ASCENDCL_FAULTS=aclrtRecordEvent:5 "$program" "$count" >"$scratch/b"
check 1
# Every kind of call is among them, with the answer that its good form gives.
for call in 'create stream [0-9]*: 0' \
    'wait for event [0-9]* kind 1, which is not recorded: 0 0 1' 'synchronize the held stream: 0' \
    'time from event .*: 0' 'bytes to block .* in stream order: 0 0 the same' 'copy block .*: 0' 'fill block .*, inside: 0' \
    'map .*: 0' 'unmap .*, which is mapped: 0' 'register: 0 in place' 'register again: [1-9].*' \
    'status of event [0-9]* kind 0: 0 1'; do
    grep -qE "^[0-9.]+ $call\$" "$scratch/a" || { echo "no program has: $call"; exit 1; }
done
# The programs of captures, too; a third of their number, as they take three times as long.
"$captures" $((count / 3)) >"$scratch/a"
WEIR_ASCENDCL_SEED=7 WEIR_ASCENDCL_COSTS=launch=400000,fill_per_mib=3000000 "$captures" $((count / 3)) >"$scratch/b"
check 0
for call in 'execute a graph: 0' 'end on [0-9]: 0 a graph' 'end on [0-9]: 107025 none' 'join: wait 0' 'fill block [0-9]: 0' \
    'copy at once [0-9], block [0-9]: 107030' 'synchronize device: 107027' 'synchronize event .*: 107028' 'fork: wait 107032'; do
    grep -qE "^[0-9.]+ $call\$" "$scratch/a" || { echo "no program has: $call"; exit 1; }
done
