#!/usr/bin/env bash
# run_test.sh WEIR FAMILY STATIC: `weir run`: its options, the report, the limit, exit statuses, and programs that keep their
# own malloc. FAMILY is the program of tests/host/preload; STATIC may be '-': not built.
set -uo pipefail
weir=$1 family=$2 static=$3
unset LD_PRELOAD WEIR_PRELOAD_LIMIT WEIR_PRELOAD_REPORT WEIR_PRELOAD_SIGNAL
source "${BASH_SOURCE[0]%/*}/rig.sh"
name=${family##*/}

# run STATUS ARGUMENTS...: its stderr goes to err and its stdout to out.
run() {
    local expected=$1 status=0
    shift
    "$weir" run "$@" >out 2>err </dev/null || status=$?
    [ $status = "$expected" ] || complain "run $*: exit status $status, not $expected: $(cat err)"
}
said() { grep -qE -- "$2" err || complain "$1: no '$2' in: $(cat err)"; }

# --- the report ---

run 0 -- "$family" use
said 'a report' "^weir: $name \([0-9]+\): at the peak [0-9.]+ MiB live and [0-9.]+ held; at the end "
said 'a report' '^weir:   [0-9]+ blocks, the largest of [0-9]+ bytes; [0-9]+ requests refused$'
said 'a report' "^weir:     $name +4.8 +4.8$"
[ ! -s out ] || complain "the report is on standard output: $(cat out)"
run 0 -q -- "$family" use
[ ! -s err ] || complain "--quiet prints: $(cat err)"
run 0 --report report -- bash -c "cd / && '$family' use; '$family' use; true"
[ ! -s err ] || complain "--report prints: $(cat err)"
[ "$(grep -c "^weir: $name (" report)" = 2 ] && grep -q '^weir: bash (' report || complain "not each process: $(cat report)"
run 0 -- bash -c "'$family' use; true"
said 'other processes' '^weir: bash \('
said 'other processes' '^weir run: 1 report of other processes: --report FILE keeps them$'
! grep -q "^weir: $name" err || complain "the report of another process is printed: $(cat err)"
run 0 -s USR1 -r now -- "$family" signal 10 "$PWD/now"
[ "$(grep -c "^weir: $name (.* held; now " now)" = 1 ] || complain "no report for the signal: $(cat now)"
(LD_PRELOAD='' WEIR_PRELOAD_LIMIT=1 run 0 -q -- "$family" use) # the environment of another run

# --- the limit ---

limit=$((32 << 20))
run 0 -q -l 32MiB -- "$family" limit $((2 * limit))
said 'the limit' "^weir: $name \([0-9]+\): no memory for [0-9]+ bytes at the limit of 32.0 MiB; the program gets NULL$"
[ "$(grep -c 'the program gets NULL' err)" = 1 ] || complain "the record is not printed once: $(cat err)"
run 0 -l 32MiB -- "$family" limit $((2 * limit))
said 'the report at a limit' '[1-9][0-9]* requests refused at the limit of 32.0 MiB$'

# --- exit statuses ---

run 7 -q -- bash -c 'exit 7'
run 143 -q -- bash -c 'kill -TERM $$'
run 137 -- bash -c 'kill -KILL $$'
said 'a killed program' '^weir run: bash wrote no report: a signal or _exit ended it, or its malloc is its own$'
run 127 -q -- no-such-program
said 'no program' '^weir run: no-such-program: cannot be run: No such file or directory$'
: >not-executable
run 126 -q -- ./not-executable
said 'not executable' 'cannot be run: Permission denied'
if [ "$static" != - ]; then
    run 126 -q -- "$static"
    said 'a static program' 'is statically linked: nothing can be put between it and its allocator'
fi
cp "$family" setuid && chmod u+s setuid
if [ "$(id -u)" = 0 ] && chown nobody setuid && chmod u+s setuid; then
    run 126 -q -- ./setuid
    said 'another user' 'is setuid or setgid'
fi

# --- bad usage ---

bad 'no program is named' run
bad '--limit 2 cows: not a size' run --limit '2 cows' -- true
bad '--limit 0: not a size' run -l 0 -- true
bad '--signal NOSUCH: not a signal' run -s NOSUCH -- true
bad '--signal 65536: not a signal' run -s 65536 -- true
bad 'none/report: No such file or directory' run -r none/report -- true

finish "weir run: reports, limits, exit statuses, $bad_count refusals"
