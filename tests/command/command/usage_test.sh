#!/usr/bin/env bash
# usage_test.sh WEIR TRACES INPUTS: the command's output and exit status for good and for bad usage. A bad input gives one line
# on standard error that names the input, exit status 2, and nothing on standard output.
set -uo pipefail
weir=$1 traces=$2 inputs=$3
completion=$(cd "${BASH_SOURCE[0]%/*}/../../../benchmarks/weir/command" && pwd)/completion.bash
source "${BASH_SOURCE[0]%/*}/rig.sh"

small=$traces/llama_ctx_dyn.wtr.xz
printf '#wtr 1\na 0 0 1024 0 0\nf 1 0 0 0\n' >good.wtr
printf '#wtr 1\na 0 0 10k 0 0\n' >field.wtr
printf '#wtr 1\na 0 0 1024 0 0\nf 1 7 0 0\n' >unknown.wtr
printf '#wtr 1\n#clock order\na 0 0 1024 0 0\nu 1 0 1\n' >order.wtr
printf '\x80\x04cos\nsystem\n.' >global.pickle
printf '\x80\x04\x95' >cut.pickle
: >empty.wtr
head -c 300 "$small" >cut.wtr.xz
gzip -c good.wtr >good.wtr.gz
head -c 20 good.wtr.gz >cut.wtr.gz

printf '# a table\nregion_alloc_ns 7000000\n' >some.prices
printf 'region_alloc_ns 1\nlaunch 2\n' >bad.prices

bad 'missing.wtr' replay missing.wtr
bad "$work" replay "$work"
bad 'empty.wtr' replay empty.wtr
bad 'field.wtr:2: field 4' replay field.wtr
bad 'unknown.wtr:3:' replay unknown.wtr
bad 'global.pickle: byte 2' replay global.pickle
bad 'cut.pickle: byte' replay cut.pickle
bad 'cut.wtr.xz' replay cut.wtr.xz
bad 'cut.wtr.gz' info cut.wtr.gz
bad 'field.wtr:2' import field.wtr
bad "no strategy 'nosuch'" replay good.wtr --strategy caching,nosuch
bad "no strategy ''" replay good.wtr --strategy ''
bad "at '12,page_size:1g]': max_split_size_mb:12: too small: torch_npu takes 20 or more" replay good.wtr \
    --strategy 'caching,torch_npu[max_split_size_mb:12,page_size:1g]'
bad "at 'page_size:1g]': page_size: a setting of torch_npu, which PyTorch refuses" replay good.wtr -s 'pytorch[page_size:1g]'
bad "no strategy 'pytorch" replay good.wtr -s 'pytorch[a'
bad "no strategy 'caching" replay good.wtr -s 'caching[]'
bad '--capacity 0' replay good.wtr --capacity 0
bad '--capacity -1' replay good.wtr --capacity -1
bad '--capacity 12parsecs' replay good.wtr --capacity 12parsecs
bad '--capacity 99999999999999999999GiB' replay good.wtr --capacity 99999999999999999999GiB
bad '--seed x' replay good.wtr --seed x
bad '--growth sideways' replay good.wtr --growth sideways
for range in '' 1 1.3: 1:x x:1 1:2:0 0:1 1:1.2345 1..2:3 -1:2 1:2:0.01:3 1:101 ' 1:2'; do
    bad "--sweep=$range: not FROM:TO:STEP" replay good.wtr "--sweep=$range"
done
bad '--sweep=1.3:1: ends below' replay good.wtr --sweep=1.3:1
bad '--sweep=1:2:0.005: more than 101 factors' replay good.wtr --sweep=1:2:0.005
bad '--sweep-all needs --sweep' replay good.wtr --sweep-all
bad '--limit and --sweep' replay good.wtr --sweep --limit 4MiB
printf '#wtr 1\n#dev 0 gran=256\na 0 0 1024 0 0\n' >gran.wtr
bad 'gran.wtr: #dev 0 gran=256: a simulated device gives memory in pieces of 512 B to 1 GiB' replay gran.wtr
for rounds in '' 0 x -1 1001; do
    bad "--host $rounds: not a number from 1 to 1000" replay good.wtr "--host=$rounds"
done
bad '--jobs 0: not a number' replay good.wtr --jobs 0
bad '--jobs 257: not a number' replay good.wtr -j 257
bad 'needs a value' replay good.wtr --strategy
bad 'unknown option --frob' replay good.wtr --frob
bad 'no trace is named' replay
bad 'no trace is named' info
bad 'exactly one input' import
bad '--list takes no trace good.wtr' info --list good.wtr
bad "no subcommand 'frob'; there are" frob
bad "no subcommand 'repaly'; did you mean replay?" repaly
bad "no subcommand 'nif'" help nif
bad 'unknown option --stratgy; did you mean --strategy?' replay good.wtr --stratgy caching
bad 'unknown option --captcity=4GiB; did you mean --capacity?' replay good.wtr --captcity=4GiB
bad "there is no strategy 'cachign'; did you mean caching?" replay good.wtr -s cachign
bad "there is no strategy 'x' (" replay good.wtr -s direct,x
bad '--color blue: it is auto, always or never' replay good.wtr --color=blue
bad '--json and --csv both print' replay good.wtr --json --csv
bad '--csv has no lines for --sweep' replay good.wtr --csv --sweep
bad '--csv has no lines for --host' replay good.wtr --csv --host
good 'trace,device,strategy' replay good.wtr --csv --sweep --report swept.html
bad '-: standard input is named twice' replay - good.wtr -
bad 'missing.wtr: ' replay good.wtr missing.wtr --report untouched.html
[ ! -e untouched.html ] || complain 'a missing trace is told after the work has begun'
bad 'nowhere/out.wtr: cannot be written' import field.wtr -o nowhere/out.wtr
bad 'unknown option --frob' topo --frob
bad 'no program is named' record
bad 'unknown option --frob' record --frob true
bad '--xml needs a value' topo --xml
bad 'takes no argument node0' topo node0
bad 'are two machines' topo --xml one.xml --synthetic numa:2
bad 'nowhere.xml: ' topo --xml nowhere.xml
bad 'field.wtr: ' topo --xml field.wtr
bad 'no such machine: ' topo --synthetic 'no such machine'
bad 'nowhere/page.html' replay good.wtr --strategy caching --json --report nowhere/page.html
bad 'nowhere/out.wtr' import good.wtr -o nowhere/out.wtr

for command in replay info import; do
    for bound in '' x -1 1.5 1e3 1.s .5s '5 parsecs' 10d 99999999999999999999 99999999999999999s; do
        bad "--from $bound: neither the number of an event nor a time" $command good.wtr "--from=$bound"
    done
    bad '--to y: neither the number of an event nor a time' $command good.wtr --to y
    bad '--to 4: the window ends before it begins' $command good.wtr --from 5 --to 4
    bad '--from 2ms: the window ends before it begins' $command good.wtr --to 1999us --from 2ms
    bad 'good.wtr: no event is at or after event 2; the last is at event 1' $command good.wtr --from 2
    bad 'good.wtr: no event is at or after 1000000000 ns; the last is at 1 ns' $command good.wtr --from 1s
    bad 'good.wtr: no event is between event 1 and 0 ns' $command good.wtr --from 1 --to 0s
    bad 'order.wtr: its clock has no nanoseconds, so the window needs event numbers' $command order.wtr --to 1s
    for streams in '' x -1 0, ,0 0,,1 0x1 1048576 12345678901234567890123456789; do
        bad "--stream $streams: not numbers of streams" $command good.wtr "--stream=$streams"
    done
    bad "more than 64 streams" $command good.wtr --stream "$(seq -s , 0 64)"
    bad 'good.wtr: there is no stream 1; the trace has the streams 0 to 0' $command good.wtr --stream 0,1
    bad 'order.wtr: no block of the streams is live in the window' $command order.wtr --stream 1
    bad 'good.wtr: no event is of device 3; the trace uses device 0' $command good.wtr --device 3
    bad 'needs a value' $command good.wtr --stream
done

good 'weir replay' --help
good '--strategy LIST' replay --help
good '--output OUT' import --help
good '--synthetic TEXT' topo --help
good '--output FILE' record --help
good 'weir 0.' --version
good 'weir 0.' version
good '--strategy LIST' help replay
good 'weir replay TRACE' help
good '--strategy=' replay --list-options
good $'\033[1m' replay "$small" -s caching,direct --color
good 'caching' replay "$small" -s caching,direct --color=auto
grep -q $'\033' out && complain 'colours in a pipe'
good 'trace,device,strategy,events' replay good.wtr "$small" --csv
[ "$(wc -l <out)" = 9 ] || complain '--csv does not print a line for each trace and strategy'
[ "$(sed 's/"[^"]*"//' out | awk -F, '{ print NF }' | sort -u)" = 24 ] || complain 'lines of --csv differ in length'
good 'all 2: geometric mean and worst' replay good.wtr "$small" -s caching
grep -qE '^  caching +2 +0 ' out || complain 'no row of caching over both traces'
good 'strategy' replay good.wtr
grep -q '^all ' out && complain 'a summary of one trace'
good 'hazards' replay good.wtr good.wtr.gz
good '"peak_reserved_bytes"' replay good.wtr --json
good 'prices assumed' replay good.wtr
export WEIR_SIM_PRICES=some.prices
good 'prices from some.prices, 23 assumed' replay good.wtr
good '7.07 ms' replay good.wtr --strategy direct
good '"assumed": 23' replay good.wtr --json
export WEIR_SIM_PRICES=bad.prices
bad 'WEIR_SIM_PRICES: bad.prices:2: there is no price' replay good.wtr
export WEIR_SIM_PRICES=missing.prices
bad 'WEIR_SIM_PRICES: missing.prices: No such file' replay good.wtr
good 'assumed' replay --help
unset WEIR_SIM_PRICES
good 'peak live' info "$small"
good '"kinds"' info --json good.wtr good.wtr.gz
good '#wtr 1' import good.wtr.gz
good 'event' replay "$small" --capacity 40MiB --strategy caching,pytorch,direct
grep -q 'ran out of memory' out || complain 'an out-of-memory event is not explained'

good 'pytorch[] ran out of memory' replay "$small" --capacity 40MiB --strategy 'pytorch[]'
grep -q 'held by ' out || complain "the model's report of running out names no holder"

# The recordings that came with the command are found by name, from any folder; a file of the user has precedence. In
# other installations the command prints the folders it searched.
good 'peak live' info llama_ctx_dyn
grep -q "/share/weir/traces/llama_ctx_dyn.wtr.xz$" out || complain 'a recording by name is not the one that came with weir'
good 'direct' replay llama_ctx_dyn.wtr.xz --strategy direct
good '#wtr 1' import -q llama_ctx_dyn
for file in "$traces"/*.wtr.xz; do
    name=$(basename "$file" .wtr.xz)
    good "$name " info --list
    good "/$name.wtr.xz\"" info --list --json
done
[ "$(wc -l < <("$weir" info --list))" = "$(ls "$traces"/*.wtr.xz | wc -l)" ] || complain 'weir info --list lists something else'
cp good.wtr llama_ctx_dyn
good '2 events' info llama_ctx_dyn
rm llama_ctx_dyn
bad 'llama_ctx: there is no such file, and no recording of that name is in /' info llama_ctx
bad 'nowhere/llama_ctx_dyn' info nowhere/llama_ctx_dyn
long=$(printf '%0300d' 0)
bad "File name too long" info "$long"
if ! ldd "$weir" | grep -q libweir; then # with a shared libweir the command does not start elsewhere
    mkdir -p elsewhere/bin
    cp "$weir" elsewhere/bin/
    here=$weir weir=$work/elsewhere/bin/weir
    bad "no recordings came with this weir: $work/elsewhere/share/weir/traces: No such file" replay llama_ctx_dyn
    bad "$work/elsewhere/share/weir/traces" info --list
    mkdir -p elsewhere/share/weir
    ln -s "$traces" elsewhere/share/weir/traces
    good 'peak live' info llama_ctx_dyn
    weir=$here
fi

# A request that runs out of memory is reported with the holders of the memory, by the trace's tags, and with advice, in
# all three output forms. A tag that is not UTF-8 breaks none of the forms.
printf '#wtr 1\n@0 weights \377\n@1 pages\na 0 0 4194304 0 0 @0\na 1 1 4194304 0 0 @1\na 2 2 4194304 0 0 @1\n' >full.wtr
good 'ran out of memory at event 2: 4.00 MiB asked on stream 1 for pages' replay full.wtr -s caching -c 8MiB
grep -q 'held by   4.00 MiB in 1 block: ' out || complain 'the holders are not named'
grep -q 'would do  have 4.00 MiB free on the device' out || complain 'there is no advice'
grep -q 'or        free 1 block, 4.00 MiB, between 0x' out || complain 'there is no other advice'
good '"kind": "FREE_BLOCKS"' replay full.wtr -s caching -c 8MiB --json
grep -q '"tag": "weights \\\\xff"' out || complain 'the JSON does not name the holder'
grep -q '"kind": "RAISE_LIMIT"' <("$weir" replay full.wtr -s caching -l 8MiB --json) || complain 'the limit is no advice'
good 'report: ' replay full.wtr -s caching -c 8MiB --report full.html
grep -q 'would do  have 4.00 MiB' full.html || complain 'the page has no report of running out'

# A request larger than any device is out of memory, not broken input; a device that cannot be simulated is broken
# input.
printf '#wtr 1\na 0 0 18446744073709551615 0 0\n' >absurd.wtr
good 'more than any device has' replay absurd.wtr --strategy caching,pytorch,direct
printf '#wtr 1\n#dev 0 cap=1\na 0 0 8 0 0\n' >tiny.wtr
bad '#dev 0 cap=1' replay tiny.wtr

# Host allocators are measured: a row for each, in the table and in JSON; without times if there are to be none.
good 'host allocators, measured in 2 rounds' replay "$small" --host=2 --strategy caching
for allocator in heap glibc jemalloc mimalloc tcmalloc; do
    grep -qE "^  $allocator +(-|not measured: .|[0-9.]+ MiB)" out || complain "--host has no row of $allocator"
done
# Many small blocks, whose reader leaves much free memory in glibc's malloc: no allocator holds them in less than they are.
awk 'BEGIN { print "#wtr 1\n#clock order"; for (i = 0; i < 40000; i++) print "a", i, i, 500, 0, 0 }' >small_blocks.wtr
good 'host allocators, measured in 1 round' replay small_blocks.wtr --host=1 --no-timing --strategy caching
[ -n "$(awk '$1 == "glibc" && $NF != "" { for (i = 2; i <= NF; i++) if ($i ~ /^1\.[0-9][0-9][0-9]$/) print }' out)" ] ||
    complain "glibc holds less than the live blocks, or much more: $(cat out)"
good '"peak_resident_bytes"' replay "$small" --host=1 --no-timing --json --strategy caching
[ "$(grep -c '"cpu_ms": null' out)" -ge 2 ] || complain '--no-timing shows processor times of host allocators'

# A sweep prints the two ends of a bar, where memory runs out and where it begins to suffice; figures for scripts, equal
# in every run; and the report contains both.
good 'limits of 1.00 to 1.30 times peak live' replay "$small" --sweep --strategy caching,direct
grep -qE '^  caching +1\.[0-9]{2} +[0-9.]+ MiB +event [0-9]+  [0-9.]+[0-9]#+[#.]*#$' out || complain 'a sweep shows no bar'
good 'limits of 1.00 to 1.30 times peak live' replay "$small" --sweep --sweep-all --strategy caching,direct
grep -qE '^  caching +1\.[0-9]{2} +[0-9.]+ MiB +event [0-9]+  [0-9]+#+$' out || complain 'a sweep of all limits shows no bar'
good '"every_limit": true' replay "$small" --json --sweep --sweep-all --strategy caching
good ' 0.005 ' replay good.wtr --sweep=0.005:0.9:0.095 --sweep-all --strategy direct
[ "$(tail -n 1 out | grep -o '#*$' | wc -c)" = 11 ] || complain 'a bar is not as long as its range'
good '"always_served_from"' replay "$small" --sweep=1:1.2:0.1 --json
[ "$(grep -c '"factor"' out)" = 9 ] || complain 'a sweep in JSON does not have three factors for three strategies'
good '' replay "$small" --json --strategy caching
grep -q '"sweep"' out && complain 'a sweep that nobody asked for'
sweep() { "$weir" replay "$small" --json --seed 3 --sweep --strategy caching,pytorch | sed -n '/"sweep"/,$p'; }
[ "$(sweep)" = "$(sweep)" ] || complain 'the same sweep gave different figures'

# If standard output is full or closed, every subcommand fails with one line that says so.
if [ -w /dev/full ]; then
    for arguments in --help --version help 'replay good.wtr -q' 'replay good.wtr -q --json' 'replay good.wtr -q --csv' \
        'replay good.wtr good.wtr.gz -q --jobs 2' 'replay good.wtr -q --sweep -s caching' 'replay --list-options' \
        'info good.wtr' 'info --json good.wtr' 'info --list' 'info --list --json' 'import -q good.wtr' \
        'import good.wtr -q -o -' topo 'topo --json' 'record --help' 'replay --help' 'import --help' 'info --help'; do
        for closed in no yes; do
            status=0
            if [ $closed = no ]; then
                "$weir" $arguments >/dev/full 2>err || status=$?
            else
                "$weir" $arguments >&- 2>err || status=$?
            fi
            [ $status = 2 ] || complain "weir $arguments, standard output closed: $closed: exit status $status"
            [ "$(wc -l <err)" = 1 ] || complain "weir $arguments, closed: $closed: not one line: $(cat err)"
        done
    done
fi
# Files of every kind on a full disk: a report, a trace plain and packed, a recording. What else was asked for is printed.
if [ -w /dev/full ]; then
    ln -s /dev/full nospace.html
    ln -s /dev/full nospace.wtr.xz
    ln -s /dev/full nospace.wtr.gz
    for arguments in 'replay good.wtr -q --json --report nospace.html' 'replay good.wtr -q --csv --report /dev/full' \
        'replay good.wtr good.wtr.gz -q --report nospace.html' 'import good.wtr -q -o /dev/full' \
        'import good.wtr -q -o nospace.wtr.xz' 'import good.wtr -q -o nospace.wtr.gz'; do
        status=0
        "$weir" $arguments >out 2>err || status=$?
        [ $status = 2 ] || complain "weir $arguments: exit status $status"
        [ "$(grep -c 'No space left on device' err)" = 1 ] || complain "weir $arguments: no reason: $(cat err)"
        [ "$(wc -l <err)" = 1 ] || complain "weir $arguments: not one line: $(cat err)"
    done
    [ -L nospace.html ] && [ -c /dev/full ] || complain 'a full disk cost a link or a device'
    rm nospace.html nospace.wtr.xz nospace.wtr.gz
fi
"$weir" import -q good.wtr -o closed.wtr >&- || complain 'weir import needs a standard output that it does not use'
grep -q '^a 0 0 1024' closed.wtr || complain 'what goes to a file went elsewhere'
"$weir" replay -q good.wtr --report closed.html >&- 2>/dev/null && complain 'a closed standard output is no error'
[ ! -e closed.html ] || ! grep -q '^  strategy' closed.html || complain 'the table went into the report'

# A report is opened before the replay begins. The old file stays until the new report is complete, and no other file is
# touched: no device, no link, no file of a similar name.
echo old >page
bad 'field.wtr:2' replay field.wtr -q -s caching --json --report page
[ "$(cat page)" = old ] || complain 'a failed replay spoils the old report'
[ "$(ls -d page* .page* 2>/dev/null)" = page ] || complain "a failed replay leaves something: $(ls -d page*)"
bad 'nowhere/page.html: cannot be written: No such file' replay missing.wtr --report nowhere/page.html
if (ulimit -f 0) 2>/dev/null; then
    status=0
    (ulimit -f 0; exec "$weir" replay good.wtr -q -s caching --report page) >/dev/null 2>&1 || status=$?
    [ $status = 2 ] || complain "a report that cannot grow: exit status $status"
    [ "$(cat page)" = old ] || complain 'a report that cannot grow spoils the old one'
    status=0
    (ulimit -f 0; exec "$weir" import good.wtr -o page) >/dev/null 2>&1 || status=$?
    [ $status = 2 ] && [ "$(cat page)" = old ] || complain "an import that cannot grow: $status, $(cat page)"
    [ "$(ls -d page* .page* 2>/dev/null)" = page ] || complain "a file that cannot grow is left: $(ls -d page*)"
fi
ln -s page link
good 'report: link' replay good.wtr -q -s caching --report link
[ -L link ] && grep -q '</html>' page || complain 'the report does not go where a link leads'
mkfifo pipe
cat pipe >piped &
good 'report: pipe' replay good.wtr -q -s caching --report pipe
wait $!
[ -p pipe ] && grep -q '</html>' piped || complain 'the report does not go into a pipe'
"$weir" replay good.wtr -q -s caching --json --report /dev/stdout >both || complain 'a report to standard output'
grep -q '</html>' both && tail -n 1 both | grep -q '}' || complain 'a report and JSON share standard output badly'
if [ "$(id -u)" = 0 ] && mknod full c 1 7 2>/dev/null && [ "$(echo x 2>&1 >full | grep -c 'No space')" = 1 ]; then
    bad 'full: could not be written whole: No space left on device' replay good.wtr -q -s caching --json --report full
    [ -c full ] || complain 'a failed report removed a device'
    bad 'full: cannot write' import good.wtr -q -o full
    [ -c full ] || complain 'a failed import removed a device'
fi
"$weir" replay "$small" -q --repeat 1000000 -s caching --report ended >/dev/null 2>&1 &
while ! ls ended.*.part >/dev/null 2>&1 && kill -0 $! 2>/dev/null; do sleep 0.01; done
kill -TERM $!
wait $! 2>/dev/null
[ -z "$(ls ended* 2>/dev/null)" ] || complain "a replay that was ended leaves something: $(ls ended*)"

# A name in another encoding is a tag like every other, in JSON, on the page and in the table: no name is lost or
# shifted.
printf '#wtr 1\n#src \266\324 \355\240\200 \300\257 \001 \302\233\n@0 \266\324.py:f\n@1 good.py:g\n' >gbk.wtr
printf 'a 0 0 4194304 0 0 @0\na 1 1 4194304 0 0 @1\nm 2 I \264\355\na 3 2 4194304 0 0 @0\n' >>gbk.wtr
name=$(printf 'gbk\266\324.wtr')
cp gbk.wtr "$name"
for arguments in 'replay -q -s caching -c 8MiB --json' 'info --json'; do
    good '"source": "\\xb6\\xd4 \\xed\\xa0\\x80 \\xc0\\xaf \\x01 \\xc2\\x9b"' $arguments "$name"
    grep -qF '"trace": "gbk\\xb6\\xd4.wtr"' out || complain "$arguments: the name of the file is not in the JSON"
    [ "$(tr -d '\n\t -~' <out | wc -c)" = 0 ] || complain "$arguments: something else than ASCII in the JSON"
done
good 'report: ' replay -q -s caching -c 8MiB "$name" --report gbk.html
grep -qF '"tags":["\\xb6\\xd4.py:f","good.py:g"]' gbk.html || complain 'a tag in another encoding shifts those after it'
grep -qF '"marks":[[2,"I","\\xb4\\xed"]]' gbk.html || complain 'a mark in another encoding is lost'
grep -qF 'command":"weir replay -q -s caching -c 8MiB gbk\\xb6\\xd4.wtr --report gbk.html' gbk.html || complain 'the page has no command'
grep -qF 'in 1 block: \xb6\xd4.py:f' out || complain 'the table does not name the holder'
[ "$(tr -d '\n\t -~' <out | wc -c)" = 0 ] || complain 'something else than ASCII in the table'
bad 'missing\xb6\x1b.wtr' replay "$(printf 'missing\266\033.wtr')"

# Tags of the same text are one holder, however many stacks have it; info counts tags and stacks.
{
    printf '#wtr 1\n'
    for i in $(seq 0 299); do
        printf '@%d same\n#stack %d frame %d\na %d %d 16384 0 0 @%d\n' "$i" "$i" "$i" "$i" "$i" "$i"
    done
    printf 'a 300 300 4194304 0 0\n'
} >same.wtr
good 'tags       300 with 300 stacks; 99.7 % of the blocks have a tag' info same.wtr
good '"stacks": 300' info --json same.wtr
good 'in 300 blocks: same' replay -q -s caching -c 8MiB same.wtr

# A replay under a limit has a peak of its own; the trace's peak does not change.
good '3 events, 1 stream, peak live 12.0 MiB' replay full.wtr -q -s caching -l 8MiB
good 'caching: figures are of the events before, whose peak live is 8.00 MiB' replay full.wtr -q -s caching -l 8MiB
good '"peak_live_bytes": 12582912' replay full.wtr -q -s caching -l 8MiB --json
grep -q '^      "peak_live_bytes": 8388608' out || complain 'the JSON has no peak of what was played'
good '' replay full.wtr -q -s caching
grep -q 'figures are of' out && complain 'a whole replay is called a part'

# A converted trace reads back the same, packed or not.
for name in one.wtr two.wtr.xz three.wtr.gz; do
    "$weir" import -q "$small" -o "$name" || complain "import to $name"
    "$weir" import -q "$name" | grep -v '^#src' >"$name.text"
done
cmp -s one.wtr.text two.wtr.xz.text && cmp -s one.wtr.text three.wtr.gz.text || complain 'conversions differ'

# Other formats are read by their content: info names the format, replay plays it, import converts it.
profiles=$inputs/profile
for format in 'kineto kineto' 'kineto_devices kineto' 'kineto_host kineto' 'zip_stored torch-snapshot' \
    'zip_deflated torch-snapshot' 'ascend ascend-db' 'nsys nsys'; do
    read -r file name <<<"$format"
    if ! "$weir" info "$profiles/$file" >out 2>err && grep -qF 'built without SQLite' err; then
        continue
    fi
    gzip -c "$profiles/$file" >other.wtr
    good "  source     $name other.wtr" info other.wtr
    good 'caching' replay -q -s caching other.wtr --no-timing
    "$weir" import -q other.wtr -o other2.wtr || complain "import of $file"
    "$weir" replay -q -s caching other2.wtr --no-timing | sed 's/other2/other/' | cmp -s - out ||
        complain "an imported $file replays in another way"
done
good '#note streams of the file: 0 = 7, 1 = 14' import -q "$profiles/kineto"
good 'x 2875 0 1' import -q "$profiles/kineto"
printf '{"a": [1, 2}' >cut.json
printf '{"a": 1}' >other.json
printf 'SQLite format 3\0' >cut.db
bad 'cut.json: byte 11: expected "," or "]", got "}"' info cut.json
bad 'other.json: is JSON without "traceEvents"' replay other.json
bad 'cut.db: ' import cut.db

# Devices apart: a table, a JSON object and a trace of the page for each; the messages name the device and the file's events.
cat >three.wtr <<'TRACE'
#wtr 1
#dev 0 cap=8388608
#dev 1 name="second"
a 0 0 4194304 0 0
a 1 1 6291456 3 0 d=1
m 2 I half
a 3 2 1048576 4 0 d=2
a 4 3 4194304 0 0
f 5 1 3 0
a 6 4 4194304 0 0
TRACE
good 'three.wtr, device 1: second' replay -q -s caching three.wtr --no-timing
[ "$(grep -c '^three.wtr, device [012]' out)" = 3 ] || complain 'not one table for each device'
grep -qF '  4 events, 1 stream, peak live 12.0 MiB' out || complain 'device 0 does not have its own events'
grep -qF 'caching ran out of memory on device 0 at event 6: ' out || complain 'the report does not name the device'
good 'three.wtr, device 2' replay -q -s caching three.wtr --device 2
[ "$(grep -c ', device' out)" = 1 ] || complain '--device 2 shows another device'
good '"device": 1' replay -q -s caching three.wtr -d 1 --json --sweep
grep -qF '"file_events": 7' out || complain 'the JSON does not count the events of the file'
"$weir" replay -q -s caching three.wtr --json >out
[ "$(grep -c '^    "device": [012]' out)" = 3 ] || complain 'not one JSON object for each device'
good 'report: ' replay -q -s caching three.wtr --report three.html
grep -qF '"name":"three.wtr, device 2"' three.html || complain 'the page does not list the devices'
[ "$(grep -oF '"marks":[[2,"I","half"]]' three.html | wc -l)" = 3 ] || complain 'a mark is not on every device'
bad 'three.wtr: no event is of device 3; the trace uses the devices 0, 1, 2' replay three.wtr --device 3
bad 'three.wtr: no event is of device 7' import three.wtr -d 7
bad 'good.wtr: no event is of device 1; the trace uses device 0' replay good.wtr --device 1
bad '--device -1' replay three.wtr --device -1
bad '--device 4096' import three.wtr --device 4096
good '#dev 1 name="second"' import -q three.wtr --device 1
[ "$(grep -c 'd=1' out)" = 1 ] && [ "$(grep -c '^[afm] ' out)" = 3 ] || complain 'import --device takes the wrong events'
cp out only1.wtr
good 'only1.wtr, device 1: second' replay -q -s caching only1.wtr --no-timing

# A recording that ends in out-of-memory, on two of three devices: each strategy is asked for the request that was refused.
cat >died.wtr <<'TRACE'
#wtr 1
#clock order
s 0 + 0x10000000 20971520 0
p 0 8388608 0 0x10000000
s 0 + 0x20000000 25165824 1 d=1
s 0 + 0x30000000 2097152 2 d=2
a 1 1 1000 2 0 d=2 addr=0x30000000
a 1 2 9437184 0 0 addr=0x10800000
a 2 3 20971520 1 0 d=1 addr=0x20000000
o 3 100 50 d=2
a 4 4 1000 2 0 d=2 addr=0x30000400
f 5 2 0 0
o 6 12582912 1048576
o 7 8388608 4194304 d=1
TRACE
good 'the recorded program ran out of memory at event 10: it asked for 12.0 MiB, and 1.00 MiB were free' \
    replay -q died.wtr --no-timing
grep -qF 'capacity 21.0 MiB, as the recording implies: 20.0 MiB reserved at that event' out || complain 'no implied capacity'
[ "$(grep -c 'recorded program ran out' out)" = 2 ] || complain 'device 2 went on, and is said to have died'
grep -qF 'caching serves the request that the recorded program did not get; a device of 28.0 MiB is enough' out ||
    complain 'no verdict for caching'
grep -qF 'pytorch ran out of memory on device 1 at event 11: 8.00 MiB asked' out || complain 'the request is not asked for'
grep -qF 'pytorch runs out at the same event as the recorded program; a device of 40.0 MiB is enough' out ||
    complain 'no verdict for pytorch'
good 'direct runs out earlier than the recorded program, at event 6; a device of 28.0 MiB is enough' \
    replay -q died.wtr -d 1 -c 16MiB -s direct
grep -q 'recording implies' out && complain '--capacity does not override the implied capacity'
good '"verdict": "same"' replay -q died.wtr -d 1 -s pytorch --json
grep -qF '"capacity_bytes": 29360128' out && grep -qF '"enough_bytes": 41943040' out || complain 'the JSON lacks an answer'
good '"recorded_oom": null' replay -q died.wtr -d 2 -s pytorch --json
sed 's/^o 7 8388608/o 7 18446744073709551615/' died.wtr >absurd.wtr
good 'no device is enough' replay -q absurd.wtr -d 1 -s caching

# The recorded allocator is the first row; what a trace does not tell is "-" in the table and null in JSON.
good 'recorded         20.0 MiB  1.176     12.0 MiB       event 10         0       -          -       -       -      -      -       -' \
    replay -q died.wtr --no-timing -s caching
grep -qF 'recorded ran out of memory on device 1 at event 11: 8.00 MiB asked on stream 0' out || complain 'no report of the record'
grep -qF '    held by   20.00 MiB in 1 block: untagged' out || complain 'the report of the record has no holders'
grep -q 'recorded runs out' out && complain 'the recorded row has a verdict on itself'
"$weir" replay -q died.wtr -d 0 -s caching --json --sweep >out || complain 'no JSON of the recorded row'
awk '/"strategy": "recorded"/ { on = 1 } on { print } /"note"/ { exit }' out >row
for member in device_time_ns waits host_waits hazards hazards_in_flight findings checks ns_per_call seconds served \
    pad_bytes recorded recorded_oom note; do
    grep -q "\"$member\": null" row || complain "the recorded row knows $member"
done
grep -q '"peak_reserved_bytes": 20971520' row && grep -q '"largest_free_bytes": 12582912' row &&
    grep -q '"device_calls": 0' row && grep -q '"event": 10' row || complain 'the JSON of the recorded row lacks figures'
[ "$(grep -c '"strategy"' out)" = 4 ] || complain 'the recorded row is in the sweep, or another one is missing'
grep -q '"history": true' out || complain 'a trace with a history has none'
good 'report: ' replay -q -s caching died.wtr -d 1 --no-timing --report died.html
good '  recorded: more was reserved than is recorded: blocks that lie outside the recorded memory: 1' replay -q -s caching --no-timing - <<'TRACE'
#wtr 1
s 0 + 0x10000000 2097152 0
a 1 1 1000 0 0 addr=0x20000000
TRACE
good '"largest_free_bytes": null' replay -q -s caching --no-timing --json - <<'TRACE'
#wtr 1
s 0 + 0x10000000 2097152 0
a 1 1 1000 0 0
TRACE
printf '#wtr 1\ns 0 + 0x10000000 4194304 0\np 0 1048576 0 0x10100000\n' >moment.wtr
good '  no history: the snapshot shows one moment' info moment.wtr
good '  no history: the snapshot shows one moment' replay -q moment.wtr --no-timing
grep -qF '  recorded         4.00 MiB  4.000     2.00 MiB              -         0' out || complain 'a moment has no recorded row'
good '"history": false' info --json moment.wtr
good '"history": false' replay -q -s caching --json moment.wtr
"$weir" replay -q -s caching moment.wtr --report moment.html >/dev/null || complain 'no page of one moment'
good '' replay -q -s caching full.wtr
grep -q '^  recorded' out && complain 'a trace without segments has a recorded row'

# The same seed gives the same figures, apart from wall time.
figures() { "$weir" replay "$small" --json --seed "$1" | grep -vE 'p50|p99|p999|seconds'; }
[ "$(figures 7)" = "$(figures 7)" ] || complain 'the same seed gave different figures'

# The page is complete, contains its data and loads nothing from the network.
"$weir" replay "$small" --sweep --report page.html >/dev/null || complain 'no report'
tail -n 2 page.html | grep -q '</html>' || complain 'the report is not whole'
grep -q '"strategy":"caching"' page.html || complain 'the report carries no data'
grep -q '"sweep":{"peak_live_bytes"' page.html || complain 'the report does not carry the sweep'
grep -q '@WEIR_DATA@' page.html && complain 'the report still has its placeholder'
grep -qE '(src|href)="?https?:' page.html && complain 'the report asks the network'

# A hazard gives exit status 1: a use on another stream that the pool is not told of.
cat >race.wtr <<'TRACE'
#wtr 1
a 0 0 1048576 0 0
u 1 0 1
w 2 1 5000000
f 3 0 0 0
a 4 1 1048576 0 0
f 5 1 0 0
TRACE
status=0
"$weir" replay race.wtr --strategy caching --ignore-uses >out || status=$?
[ $status = 1 ] || complain "a hazard gave exit status $status"
grep -q 'hazard: ' out || complain 'the hazard is not named'
good '0' replay race.wtr --strategy caching,pytorch,direct

# The output does not depend on the number of jobs: of strategies, of limits, of traces. A trace that cannot be read is
# told in its place, and the others keep their results.
for form in '' --json --csv '--sweep=1.00:1.10:0.02' '--from 0 --to 200'; do
    for jobs in 1 2 5 16; do
        status=0
        "$weir" replay "$small" race.wtr field.wtr three.wtr died.wtr cut.wtr.gz "$traces"/ort_unet_dyn_res.wtr.xz good.wtr \
            --strategy caching,pytorch,direct,caching+vm --capacity 40MiB --no-timing --jobs $jobs $form >jobs.$jobs 2>&1 ||
            status=$?
        [ $status = 2 ] || complain "weir replay --jobs $jobs $form: exit status $status"
    done
    cmp jobs.1 jobs.2 && cmp jobs.1 jobs.5 && cmp jobs.1 jobs.16 || complain "weir replay $form: the output depends on --jobs"
done
"$weir" replay race.wtr field.wtr good.wtr cut.wtr.gz -s caching --no-timing -q >out 2>err && complain 'two failed traces are no error'
[ "$(cut -d: -f2 err | tr -d '\n')" = ' field.wtr cut.wtr.gz' ] ||
    complain "the failures are not told in order: $(cat err)"
[ "$(grep -c '^  caching  *2' out)" = 3 ] || complain "a failed trace cost the others their results: $(cat out)"
grep -q '^all 2: ' out || complain 'no summary of those that were replayed'
"$weir" replay good.wtr field.wtr -s caching --no-timing --json >out 2>/dev/null
[ "$(head -c 1 out)" = '[' ] && grep -q '"trace": "good.wtr"' out || complain 'the JSON of the others is lost, or no array'
"$weir" replay good.wtr field.wtr -s caching --no-timing --report part.html >out 2>/dev/null
grep -q '^report: part.html' out && grep -q '</html>' part.html || complain 'the page of the others is lost'

# Ctrl-C ends all threads, in the middle of many replays, and leaves no file.
if env --default-signal=INT true 2>/dev/null; then
    for report in '' '--report stopped.html'; do
        env --default-signal=INT "$weir" replay "$small" "$small" "$small" "$small" -q --repeat 1000000 --jobs 4 -s caching,direct \
            $report >/dev/null 2>&1 &
        sleep 0.5
        kill -INT $!
        status=0
        wait $! 2>/dev/null || status=$?
        [ $status = 130 ] || complain "Ctrl-C: exit status $status"
        [ -z "$(ls stopped.html* 2>/dev/null)" ] || complain 'Ctrl-C leaves a part of the page'
    done
fi

# A part of a trace: a window begins with the blocks that are live there, a stream keeps its blocks. The output says which
# part; what lives at the end stays live.
good '  only events 1 to 4 of 7; 1 block live before' replay three.wtr -d 0 -q -s caching --no-timing --from 1 --to 4
grep -qF '  3 events, 1 stream, peak live 8.00 MiB' out || complain 'the window has other events'
good 'three.wtr, device 1: second' replay three.wtr -q -s caching --no-timing --from 1 --to 4
[ "$(grep -c '^three.wtr, device [012]' out)" = 3 ] || complain 'not every device has its window'
good '"first_event": 3,' replay three.wtr -q -s caching --no-timing --from 3ns --json
grep -qF '"last_event": 6,' out && grep -qF '"streams": null' out || complain 'the JSON does not say which part'
good '"part": null' replay good.wtr -q -s caching --json
good '  only events 0 to 6 of 7, blocks of stream 3; 0 blocks live before' replay three.wtr -q -s caching --stream 3 --no-timing
grep -qF 'three.wtr, device 1' out && ! grep -qF 'device 0' out || complain 'a stream of device 1 has other devices'
good '  only events 0 to 6 of 7, blocks of streams 4, 0; ' replay three.wtr -q -s caching --stream 4,0 --no-timing
good '"stream' replay three.wtr -q -s caching --stream 4,0 --no-timing --json -d 2
[ "$(sed -n '/"streams": \[/,/\]/p' out | tr -dc '0-9,')" = 4,0 ] || complain 'the JSON does not name the streams'
good '"worst_event": 1,' replay good.wtr -q -s caching --from 1 --no-timing --json
good '"worst_event": 9,' replay died.wtr -q -d 1 -s direct --from 9 --no-timing --json
good '  note       events 3 to 6 of 7' info three.wtr --from 3
good '"peak_event": 6' info three.wtr -d 0 --from 3 --json
good '#note events 2 to 5 of 7' import -q three.wtr --from 2 --to 5 -d 0
[ "$(grep -v '^#' out)" = "$(printf 'p 0 4194304 0\nm 2 I half\na 4 3 4194304 0 0')" ] || complain "import wrote another window: $(cat out)"
cp out window.wtr
"$weir" replay three.wtr -d 0 -q --from 2 --to 5 --no-timing --csv | cut -d, -f3-9,11- >one.csv
"$weir" replay window.wtr -q --no-timing --csv | cut -d, -f3-9,11- | cmp -s - one.csv || complain 'an imported window replays in another way'
# The refused request of an earlier window is asked for.
good 'the recorded program ran out of memory at event 7: it asked for 100 B' replay died.wtr -q -d 2 -s caching --to 7 --no-timing
# Holders that were live before the window keep their tags.
good 'held by   4.00 MiB in 1 block: pages' replay full.wtr -q -s caching -c 8MiB --from 2 --no-timing

# The completion of bash knows subcommands, options, strategies, and the shared objects of this folder.
compopt() { :; } # works in a completion only
complete() { :; }
source "$completion"
completes() { # EXPECTED WORD...
    local expected=$1
    shift
    COMP_WORDS=("$weir" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _weir "$weir" "${*: -1}" "${COMP_WORDS[COMP_CWORD - 1]}"
    [ "${COMPREPLY[*]}" = "$expected" ] || complain "completion of '$*': ${COMPREPLY[*]}, not $expected"
}
mkdir completion
touch completion/mine.so completion/other.txt
completes 'replay record' re
completes '--stream=' replay --stre
completes '--from=' info --fr
completes 'caching,pytorch' replay --strategy caching,py
completes 'caching,completion/mine.so' replay -s caching,completion/m
completes '' replay --from 1
unset -f compopt complete

bad 'asks this machine' topo --acl --synthetic numa:2
# weir topo describes this machine, in words and for scripts, and other machines if weir was built with hwloc.
good 'pinning, tried with 2 MiB' topo
grep -qE '^  node [0-9]+ .* free' out || complain 'weir topo shows no node'
grep -qE '^  small pages +(yes|no: )' out || complain 'weir topo does not say whether small pages can be pinned'
good '"this_machine": true' topo --json
grep -q '"calls_allowed"' out || complain 'weir topo --json does not say which calls are allowed'
if "$weir" topo --synthetic 'numa:2 pu:1' >/dev/null 2>&1; then # built with hwloc
    good '  node 1 ' topo --synthetic 'pack:2 [numa(memory=1073741824)] pu:3'
    grep -q '3 processors' out || complain 'weir topo miscounts processors'
    grep -q 'pinning' out && complain 'weir topo tries to pin on a machine that is not there'
    good '"this_machine": false' topo --json --synthetic 'numa:2 pu:1'
    # A user without privileges and with a small limit for locked memory is told of the limit.
    nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --no-new-privs)
    if [ "$(id -u)" = 0 ] && "${nobody[@]}" "$weir" --version >/dev/null 2>&1; then
        (ulimit -l 1024 && "${nobody[@]}" "$weir" topo >out) || complain 'weir topo as nobody'
        grep -q 'Only 1.00 MiB can be locked' out || complain 'weir topo does not tell of RLIMIT_MEMLOCK'
        grep -qE '^  small pages +no: mlock says' out || complain 'weir topo pins more than it may'
    fi
fi

[ $bad_count -ge 55 ] || complain "only $bad_count wrong invocations were tried"
finish "usage: all as documented, $bad_count wrong invocations refused"
