#!/usr/bin/env bash
# family.sh LIBRARY FAMILY OPERATORS: malloc's family with the heap in its place, and what the library says. OPERATORS may be
# '-': no C++ compiler.
set -uo pipefail
library=$1 family=$2 operators=$3
unset LD_PRELOAD WEIR_PRELOAD_LIMIT WEIR_PRELOAD_REPORT WEIR_PRELOAD_SIGNAL
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0 name=${family##*/}
complain() { echo "FAILED: $1: $(head -c 1500 out err)"; failures=$((failures + 1)); }

# run WHAT STATUS VARIABLE=VALUE... -- COMMAND...
run() {
    local what=$1 expected=$2 status=0 variables=()
    shift 2
    while [ "$1" != -- ]; do variables+=("$1"); shift; done
    shift
    (exec env "${variables[@]}" "$@") >out 2>err </dev/null || status=$?
    [ $status = "$expected" ] || complain "$what: exit status $status, not $expected"
}
said() { grep -qE -- "$2" err || complain "$1: no '$2'"; }

with="LD_PRELOAD=$library"
run 'without the library' 0 -- "$family"
run 'with the library' 0 "$with" -- "$family"
[ ! -s err ] || complain 'the library says something unasked'
run 'noted blocks' 0 "$with" WEIR_PRELOAD_REPORT="$work/report" -- "$family"
grep -q "^weir: $name ([0-9]*): at the peak" report || complain 'no report'
grep -qE "^weir:     $name +[0-9]" report || complain "the program is no holder: $(cat report)"
! grep -q broken report || complain "a broken heap: $(cat report)"

limit=$((32 << 20))
run 'a limit' 0 "$with" WEIR_PRELOAD_LIMIT=$limit -- "$family" limit $((2 * limit))
said 'a limit' 'at the limit of 32.0 MiB; the program gets NULL'
said 'a limit' 'are live and [0-9]* held of at most 33554432'
said 'a limit' "^weir:     $name +[0-9]"
[ "$(grep -c 'the program gets NULL' err)" = 1 ] || complain 'the record is not printed once'
run 'no number' 0 "$with" WEIR_PRELOAD_LIMIT=2GiB -- "$family" signal 0 "$family"
said 'no number' 'WEIR_PRELOAD_LIMIT=2GiB is ignored'

for way in double inside; do
    run "a bad free, $way" 134 "$with" -- "$family" $way
    said "a bad free, $way" 'free or realloc of 0x[0-9a-f]*, which is not the start of a live block'
done
run 'a report for a signal' 0 "$with" WEIR_PRELOAD_SIGNAL=10 WEIR_PRELOAD_REPORT="$work/now" -- "$family" signal 10 "$work/now"
[ "$(grep -c 'at the peak [0-9]' now)" = 2 ] || complain "not a report for the signal and one at the end: $(cat now)"
run 'a full disk' 0 "$with" WEIR_PRELOAD_REPORT=/dev/full -- "$family" signal 0 "$family"
run 'no such folder' 0 "$with" WEIR_PRELOAD_REPORT="$work/none/report" -- "$family" signal 0 "$family"
said 'no such folder' 'none/report cannot be written'

if [ "$operators" != - ]; then
    run 'operators without the library' 0 -- "$operators"
    run 'operators' 0 "$with" WEIR_PRELOAD_REPORT="$work/operators" -- "$operators"
    awk '/test_preload_operators +/ && $3 > 90 { is_first = 1 } END { exit !is_first }' operators ||
        complain "what the program asked for is not its own: $(cat operators)"
    ! grep -q libweir_preload operators || complain "the library names itself as a holder: $(cat operators)"
fi
exit $((failures > 0))
