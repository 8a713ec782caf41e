#!/usr/bin/env bash
# record_test.sh WEIR LIBRARY PROGRAM STATIC ASCEND HEAP OWN_MALLOC BARE: `weir record` on programs with known requests:
# the exact trace, crashes, exec, fork, exit statuses, and programs that cannot be recorded. STATIC and ASCEND may be
# '-': not built.
set -uo pipefail
weir=$1 library=$2 program=$3 static=$4 ascend=$5 heap=$6 own_malloc=$7 bare=$8
unset LD_PRELOAD WEIR_RECORD WEIR_RECORD_CHANNEL
source "${BASH_SOURCE[0]%/*}/rig.sh"

# record STATUS ARGUMENTS...: runs `weir record -o t.wtr ARGUMENTS`; its stderr goes to err and its stdout to out.
record() {
    local expected=$1 status=0
    shift
    rm -f t.wtr
    "$weir" record -o t.wtr "$@" >out 2>err || status=$?
    [ $status = "$expected" ] || complain "record $*: exit status $status, not $expected: $(cat err)"
}

# events FILE: prints the lines of events without their times; block numbers and tags are unchanged.
events() { grep -v '^#' "$1" | sed -E 's/^([a-z]) [0-9]+/\1/'; }

# is NAME EXPECTED: compares the events of t.wtr
is() {
    [ "$(events t.wtr)" = "$2" ] || complain "$1: the trace is not as expected:
$(diff <(echo "$2") <(events t.wtr))"
    "$weir" info t.wtr >/dev/null || complain "$1: weir info does not read it"
    "$weir" replay -q --no-timing -s direct t.wtr >/dev/null || complain "$1: weir replay does not play it"
}

said() { grep -qF -- "$2" err || complain "$1: no '$2' in: $(cat err)"; }

# --- exactly the program's requests ---

begin='a 0 4101 0 0'
traffic="$begin
a 1 6000 0 0
a 2 5000 0 0
a 3 5001 0 0
r 2 4 900000 0
r 4 5 800000 0
f 5 0 0
a 6 7000 0 0
a 7 6000 0 0
a 8 8192 0 0 al=64
a 9 8192 0 0 al=4096
a 10 6001 0 0 al=128
a 11 5002 0 0 al=4096
f 3 0 0
f 11 0 0
f 10 0 0
f 9 0 0
f 8 0 0
f 7 0 0
f 6 0 0
f 1 0 0
f 0 0 0
a 12 4102 0 0
f 12 0 0"
[ "$(getconf PAGESIZE)" = 4096 ] || traffic=${traffic/5002 0 0 al=4096/5002 0 0 al=$(getconf PAGESIZE)}
record 0 -- "$program" traffic
is traffic "$traffic"
said traffic '24 events, live peak'
said traffic 'none lost -> t.wtr'
grep -q '^#src weir record -- .*traffic$' t.wtr || complain 'the source does not name the program'
grep -q '^#note host blocks below 4096 bytes are left out$' t.wtr || complain 'what is left out is not noted'
grep -q '^#dev 0 name="host memory"$' t.wtr || complain 'the device is not named'

record 0 -q -- "$program" traffic
[ ! -s err ] || complain "-q is not quiet: $(cat err)"

# Small blocks are recorded too; two blocks of known sizes mark their place in the trace.
record 0 --min 0 -- "$program" small
is small "$(events t.wtr)"
middle=$(events t.wtr | awk '$3 == 77777 { on = 1 } on { print } $3 == 77778 { exit }' |
    sed -E 's/^a [0-9]+ ([0-9]+).*/a \1/; s/^r [0-9]+ [0-9]+ ([0-9]+).*/r \1/; s/^f .*/f/' | tr '\n' ' ')
[ "$middle" = 'a 77777 f a 1 a 0 r 300 f f a 77778 ' ] || complain "small blocks: $middle"

record 0 --min 8000 -- "$program" traffic
[ "$(events t.wtr | grep -c '^a')" = 3 ] || complain "--min 8000: $(events t.wtr)"
[ "$(events t.wtr | grep -c '^f')" = 3 ] || complain "--min 8000: $(events t.wtr)"

# --- threads: every block begins and ends once, although addresses repeat and other threads free the blocks ---

record 0 --min 4096 -- "$program" threads
said threads 'none lost'
awk '/^#/ { next }
    $1 == "a" { if ($3 in live) exit 1; live[$3] = 1; allocs++ }
    $1 == "r" { if (!($3 in live)) exit 1; delete live[$3]; live[$4] = 1; reallocs++ }
    $1 == "f" { if (!($3 in live) || $4 == "-") exit 1; delete live[$3] }
    END { n = 0; for (b in live) n++; exit !(n == 0 && allocs == 200002 && reallocs == 66668) }' t.wtr ||
    complain "threads: a block does not live once, or some are missing: $(grep -c '^a' t.wtr) $(grep -c '^r' t.wtr)"
"$weir" replay -q --no-timing -s direct --to 20000 t.wtr >/dev/null || complain 'threads: weir replay does not play it'

# More processes than files that may be open at once.
(ulimit -n 40; record 0 -q -c --min 0 -- bash -c 'for i in $(seq 60); do /bin/true; done'; exit $failures) ||
    complain 'many processes: not all of them are recorded'
"$weir" info t.wtr.50 >/dev/null || complain 'many processes: the last trace is none'
rm -f t.wtr.*

# The program ignores a signal that is ignored before it starts, as with nohup.
record_ignoring() { trap '' HUP; record 0 -q -- sh -c 'kill -HUP $$; echo still here'; trap - HUP; }
record_ignoring
[ "$(cat out)" = 'still here' ] || complain 'a hangup that is ignored reached the program'

# A thread is not cancelled while it waits for the reader.
record 0 -q -- "$program" cancel

# --- ends of a program: exit, signals, exec, fork ---

record 3 -- "$program" leave
is leave "$begin"$'\na 1 5000 0 0'
for status in 0 1 42 255; do
    record $status -- "$program" exit $status
done
record 139 -- "$program" crash
is crash "$begin"$'\na 1 5000 0 0'
record 0 -- "$program" fork
is fork "$begin"$'\na 1 5000 0 0\nf 1 0 0\nf 0 0 0\na 2 4102 0 0\nf 2 0 0'
record 0 -- "$program" exec
is exec "$traffic"
record 0 -- sh -c "exec '$program' traffic"
is 'exec by a shell' "$traffic"
record 0 -- env A=1 "$program" traffic
is 'env' "$traffic"
# With --children each process has a trace; processes without requests leave no gap in the names.
echo '#wtr 1' >t.wtr.2
: >t.wtr.7
record 0 --children -- "$program" fork
is 'fork, the parent' "$begin"$'\na 1 5000 0 0\nf 1 0 0\nf 0 0 0\na 2 4102 0 0\nf 2 0 0'
[ "$(events t.wtr.2)" = $'a 0 6000 0 0\nf 0 0 0' ] || complain "fork, the child: $(cat t.wtr.2)"
grep -qE '^#src .* fork \(process [0-9]+\)$' t.wtr.2 || complain "fork, the child: $(head -2 t.wtr.2)"
said 'fork, both' '-> t.wtr.2'
[ ! -e t.wtr.7 ] || complain 'a trace of an earlier run was left'
# The process that began first may write last: no process takes the file of another.
rm -f t.wtr*
record 0 -c -- bash -c '{ sleep 0.2; read -r l < <(seq 2000 | tr "\n" " "); } & "$0" fork; "$0" fork; wait' "$program"
[ "$(sed -n 's/.*-> //p' err | sort)" = "$(ls t.wtr* | sort)" ] || complain "traces were lost: $(ls t.wtr*) $(cat err)"
rm -f t.wtr*
record 4 -c -- sh -c "'$program' traffic & '$program' traffic; wait; '$program' exec; exit 4"
for each in t.wtr t.wtr.2 t.wtr.4; do
    [ "$(events $each)" = "$traffic" ] || complain "a shell's children: $each: $(cat $each)"
done
[ "$(events t.wtr.3)" = "$begin"$'\na 1 5000 0 0' ] || complain "before the exec: $(cat t.wtr.3)"
[ ! -e t.wtr.5 ] || complain 'a trace too many'
record 0 -c -- sh -c "for i in 1 2 3 4; do '$program' threads 5000 & done; wait"
for each in t.wtr t.wtr.2 t.wtr.3 t.wtr.4; do
    [ "$(events $each | grep -c '^a')" = 20002 ] && [ "$(events $each | grep -c '^r')" = 6668 ] &&
        ! grep -q '^#note lost' $each || complain "four at a time: $each"
    "$weir" replay -q --no-timing -s direct $each >/dev/null || complain "four at a time: weir replay does not play $each"
done
# A signal to the command goes to the program, and the program is recorded until its end.
record 0 -- "$program" signal
is signal "$begin"$'\na 1 9000 0 0\nf 1 0 0\nf 0 0 0\na 2 4102 0 0\nf 2 0 0'
printf '#!%s traffic\n' "$program" >script
chmod +x script
record 0 -- ./script
[ "$(events t.wtr | grep -c .)" = 24 ] || complain "a script: $(events t.wtr)"
echo words | "$weir" record -q -o t.wtr -- cat >out 2>err || complain 'input and output are not passed on'
[ "$(cat out)" = words ] || complain 'input and output are not passed on'

# --- output ---

for packed in t.wtr.xz t.wtr.gz; do
    "$weir" record -q -o $packed -- "$program" traffic || complain "$packed: cannot be written"
    "$weir" import -q $packed -o unpacked.wtr && [ "$(events unpacked.wtr)" = "$traffic" ] ||
        complain "$packed: is not the trace"
    [ ! -e $packed.plain ] || complain "$packed: the plain trace was left"
done
# No other file is opened, truncated or removed, also not through a link: the trace has a name of its own until it is
# complete.
for name in t.wtr.xz.plain t.wtr.device t.wtr.xz.device t.wtr.part t.wtr.2.part; do echo precious >$name; done
echo precious >far
ln -s far t.wtr.gz.plain
for name in t.wtr t.wtr.xz t.wtr.gz; do "$weir" record -q -o $name -- "$program" traffic; done
"$weir" record -q -c -o t.wtr -- sh -c "'$program' traffic & '$program' traffic; wait"
for name in t.wtr.xz.plain t.wtr.device t.wtr.xz.device t.wtr.part t.wtr.2.part t.wtr.gz.plain far; do
    [ "$(cat $name)" = precious ] || complain "$name was overwritten"
done
[ -L t.wtr.gz.plain ] || complain 'a link of somebody was removed'
rm -f t.wtr* far
# The old file stays until the new trace is complete.
echo old >t.wtr.xz
"$weir" record -q -o t.wtr.xz -- sh -c 'cat t.wtr.xz >seen'
[ "$(cat seen)" = old ] || complain 'the old trace was gone before the new one was there'
# If the packed trace cannot be put in its place, the plain trace is kept and named.
"$weir" record -o t.wtr.gz -- sh -c 'mkdir t.wtr.gz; exec "$0" traffic' "$program" 2>err && complain 'a trace that is nowhere'
kept=$(sed -n 's/.*; the trace is in //p' err)
[ -n "$kept" ] && [ "$(events "$kept")" = "$traffic" ] || complain "the plain trace is lost: $(cat err)"
rm -rf t.wtr* seen
# The program has the default SIGXFSZ, although the command ignores it.
record 153 -- sh -c 'kill -XFSZ $$'

rm -f ./*.wtr
"$weir" record -q -- "$program" traffic
[ "$(ls ./program*-*.wtr ./test_*-*.wtr 2>/dev/null | wc -l)" = 1 ] || complain "the default name: $(ls)"
record 0 -- true
said true 'asked for no host memory'
said true 'recorded with --children'
[ ! -e t.wtr ] || complain 'a trace of nothing was left'
record 2 -o nowhere/t.wtr -- touch ran
said 'no such folder' 'nowhere/t.wtr: No such file or directory'
[ ! -e ran ] || complain 'the program was run although there is nowhere to write'
if [ -w /dev/full ]; then
    record 2 -o /dev/full -- "$program" traffic
    said 'full disk' '/dev/full: No space left on device'
    record 5 -o /dev/full -- "$program" exit 5
    [ -c /dev/full ] || complain '/dev/full is gone'
fi
if (ulimit -f 17000) 2>/dev/null; then # KiB: more than the shared memory, less than the trace
    status=0
    (trap '' XFSZ; ulimit -f 17000; exec "$weir" record -o t.wtr -- "$program" threads 120000) >out 2>err || status=$?
    [ $status = 2 ] || complain "a disk that fills up: exit status $status: $(cat err)"
    said 'a disk that fills up' 'the trace ends there'
    "$weir" info t.wtr >/dev/null || complain 'a disk that fills up: what was written is no trace'
fi

# --- programs that cannot be recorded, and bad usage ---

record 127 -- "$work/missing"
said missing 'missing: cannot be run: No such file or directory'
record 127 -- no-such-program-anywhere
touch plain
record 126 -- ./plain
said 'no program' './plain: cannot be run: Permission denied'
if [ "$static" != - ]; then
    record 126 -- "$static"
    said static 'is statically linked'
else
    echo "no static program can be linked here: that one is not tried"
fi
if [ "$(id -u)" = 0 ]; then
    cp "$program" other && chown nobody other 2>/dev/null && chmod u+s other && { record 126 -- ./other; said setuid 'setuid'; }
fi
record 0 -- "$bare"
events t.wtr | grep -A2 -E '^a [0-9]+ 5000 0 0$' | sed -E 's/^([arf]) .*/\1/' | tr '\n' ' ' | grep -q '^a r f ' ||
    complain "an allocator without sizes: $(events t.wtr)"
said 'an allocator without sizes' 'none lost'
record 2 -- "$own_malloc"
said 'its own malloc' 'brings a malloc of its own'
bad() {
    local text=$1 status=0
    shift
    "$weir" record "$@" >out 2>err || status=$?
    [ $status = 2 ] || complain "record $*: exit status $status, not 2"
    [ ! -s out ] || complain "record $*: something on standard output"
    [ "$(wc -l <err)" = 1 ] || complain "record $*: not one line: $(cat err)"
    said "record $*" "$text"
}
bad 'no program is named'
bad 'no program is named' --
bad 'unknown option --frob' --frob -- true
bad '-o needs a value' -o
bad '--output -: a file is needed' -o - -- true
bad '--what gpu: it is host, device, all or weir' --what gpu -- true
bad '--min some: not a size' --min some -- true
bad 'of several traces none is packed' --what weir -o h.wtr.xz -- true
bad 'of several traces none is packed' --children -o h.wtr.xz -- true
bad '--children is for other memory' --children --what weir -- true
"$weir" record --help | grep -q -- '--what WHAT' || complain 'there is no help'

# --- the place of the library ---

# The relative path from the command to the library is the same in every place.
way=$(realpath --relative-to="$(dirname "$weir")" "$(dirname "$library")")
mkdir -p place/bin alone/bin && (cd place/bin && mkdir -p "$way")
cp "$weir" place/bin/weir && cp "$weir" alone/bin/weir && cp "$library" "place/bin/$way/libweir_record.so"
rm -f t.wtr
place/bin/weir record -q -o t.wtr -- "$program" traffic || complain 'an installed copy does not record'
is 'an installed copy' "$traffic"
status=0
alone/bin/weir record -o t.wtr -- touch ran >out 2>err || status=$?
[ $status = 2 ] || complain "without the library: exit status $status"
said 'without the library' "libweir_record.so is not in $work/alone/"

# --- weir's own heaps write their traces themselves ---

record 0 --what weir -- sh -c 'echo "$WEIR_RECORD" >where'
[ "$(cat where)" = "$PWD/t.wtr" ] || complain '--what weir does not name the file'
said '--what weir' 'made no heap of weir'

mkdir elsewhere
record 0 --what weir -- sh -c 'cd elsewhere && "$0"' "$heap"
[ -e t.wtr ] && [ ! -e elsewhere/t.wtr ] || complain '--what weir: a program in another folder wrote the trace there'

echo '#wtr 1' >t.wtr.2
echo '#wtr 1' >t.wtr.3
record 0 --what weir -- "$heap"
grep -v -E '^(#wtr|#clock)' t.wtr | sed -E 's/ addr=0x[0-9a-f]+//; s/^([afr]) [0-9]+/\1/' >first
[ "$(cat first)" = '#src weir heap engine
a 0 100000 0 0 al=64
a 1 5000 1 0
r 1 2 70000 0
f 2 1 0
f 0 0 0' ] || complain "the first heap: $(cat first)"
grep -qE '^a [0-9]+ 0 6000 ' t.wtr.2 || complain "the heap that is never destroyed: $(cat t.wtr.2)"
[ ! -e t.wtr.3 ] || complain '--what weir left what was there before'
said 'two heaps' 'a heap of weir -> t.wtr.2'
"$weir" replay -q --no-timing -s direct t.wtr t.wtr.2 >/dev/null || complain 'heaps: weir replay does not play them'
echo mine >t.wtr.5
for option in --children '--what weir'; do
    record 2 $option -- touch ran
    said "somebody's file, $option" 't.wtr.5 is there and is no trace'
    [ "$(cat t.wtr.5)" = mine ] && [ -e t.wtr.2 ] || complain "$option removed what is no trace"
    [ ! -e ran ] || complain "$option: the program was run although a file is in the way"
done
rm t.wtr.5
record 2 -o nowhere/t.wtr --what weir -- touch ran
said '--what weir, no such folder' 'nowhere/t.wtr: No such file or directory'
[ ! -e ran ] || complain '--what weir: the program was run although there is nowhere to write'

# --- Ascend ---

if [ "$ascend" != - ]; then
    device='a 0 1000000 0 0
a 1 2000 0 0
a 2 3000 1 0 d=1
e 0 2
x 0 3
y 3
y e0
f 1 - 0
f 2 - 0
y *
f 0 - 0
y 3
y 2'
    record 0 -- "$ascend"
    is Ascend "$device"
    said Ascend "this is the device's memory"
    said Ascend 'none lost'
    grep -q '^#dev 0 name="NPU 0"$' t.wtr && grep -q '^#dev 1 name="pinned host memory"$' t.wtr ||
        complain "Ascend: the devices are not named: $(grep '#dev' t.wtr)"
    [ ! -e t.wtr.device ] || complain 'Ascend: the second file was left'
    record 0 --what device -- "$ascend"
    is 'Ascend, device' "$device"
    record 0 --what host -- "$ascend"
    events t.wtr | grep -q '^a [0-9]* 50000 0 ' || complain 'Ascend, host: no host memory'
    ! grep -q 1000000 <(events t.wtr) || complain 'Ascend, host: device memory'
    record 0 --what all -- "$ascend"
    events t.wtr | grep -q '^a [0-9]* 50000 0 ' || complain 'Ascend, all: no host memory'
    events t.wtr | grep -q '^a [0-9]* 1000000 [0-9]* 0 d=1' || complain 'Ascend, all: no device memory'
    "$weir" replay -q --no-timing -s direct t.wtr >/dev/null || complain 'Ascend, all: weir replay does not play it'
    record 0 --what device -- "$program" traffic
    said 'no device' 'asked for no device memory'
else
    echo 'the simulated Ascend runtime is not built: that one is not tried'
fi

[ $failures = 0 ] && echo 'programs are recorded as they are' || exit 1
