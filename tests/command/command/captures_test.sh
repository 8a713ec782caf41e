#!/usr/bin/env bash
# captures_test.sh WEIR SCHEMA CHECKER: what the command says of captured graphs: info, replay as table, JSON, CSV and page,
# import and windows.
set -uo pipefail
weir=$1 schema=$2 checker=$3
source "${BASH_SOURCE[0]%/*}/rig.sh"

# Two graphs of 4 and 6 MiB on two streams, in one capture pool; work outside takes memory of its own.
cat >graphs.wtr <<'END_OF_TRACE'
#wtr 1
a 0 1 2097152 0 0
g 1 B 5 0
a 2 2 4194304 0 0
f 3 2 0 0
g 4 E 5 0
g 5 B 5 1
a 6 3 6291456 1 0
f 7 3 1 0
g 8 E 5 1
a 9 4 4194304 0 0
f 10 4 0 0
g 11 R 5
g 12 B 6 1
END_OF_TRACE
printf '#wtr 1\na 0 1 4096 0 0\n' >plain.wtr

good 'captures   3 into 2 capture pools, of which 1 is released' info graphs.wtr
good '"capture_pools": 2' info graphs.wtr --json
"$weir" info plain.wtr | grep -q captures && complain 'captures in a trace without any'

strategies=direct,caching,pytorch
good '3 captured graphs need, all together:' replay graphs.wtr --strategy $strategies
grep -qE '^ +direct +10\.0 MiB$' out || complain 'the graphs of direct'  # two regions, which are never joined
grep -qE '^ +pytorch +40\.0 MiB$' out || complain 'the graphs of pytorch' # a segment of 20 MiB for each stream
good '3 captured graphs need, all together:' replay graphs.wtr --strategy 'pytorch[]'
grep -qE '^ +pytorch\[\] +-$' out || complain 'the graphs of a model that does not know them'
"$weir" replay plain.wtr | grep -q 'captured' && complain 'graphs of a trace without any'

"$weir" replay graphs.wtr plain.wtr --strategy $strategies --csv >csv || complain 'no CSV'
[ "$(sed 's/"[^"]*"//' csv | cut -d, -f3,23 | tr '\n' ' ')" = \
    'strategy,capture_bytes direct,10485760 caching,10485760 pytorch,41943040 plan, direct, caching, pytorch, plan, ' ] ||
    complain "the column of graphs: $(cut -d, -f3,23 csv)"

"$weir" replay graphs.wtr --strategy $strategies --json >graphs.json || complain 'no JSON'
"$weir" replay plain.wtr --json >plain.json || complain 'no JSON without captures'
grep -qF '"capture_bytes": 41943040' graphs.json || complain 'the JSON lacks the graphs'
grep -qF '"captures": 3' graphs.json || complain 'the JSON lacks the number of captures'
grep -qF '"capture_bytes": null' plain.json || complain 'the JSON has graphs without captures'
if command -v python3 >/dev/null; then
    python3 "$checker" "$schema" graphs.json plain.json || complain 'a document does not fit'
fi
"$weir" replay graphs.wtr --strategy $strategies --report page.html -q >/dev/null || complain 'no page'
grep -qF '"capture_bytes":41943040' page.html || complain 'the page lacks the graphs'

# Every tool that writes a trace keeps the lines.
"$weir" import -q graphs.wtr -o copy.wtr.gz && "$weir" import -q copy.wtr.gz -o copy.wtr || complain 'weir import'
diff <(grep '^g' graphs.wtr) <(grep '^g' copy.wtr) || complain 'import changes captures'
"$weir" import -q graphs.wtr --from 6 -o part.wtr || complain 'weir import --from'
[ "$(grep '^g' part.wtr | tr '\n' ' ')" = 'g 6 B 5 1 g 8 E 5 1 g 11 R 5 g 12 B 6 1 ' ] || complain "a window: $(cat part.wtr)"

printf '#wtr 1\ng 0 E 1 0\n' >wrong.wtr
bad 'wrong.wtr:2: field 4 (P): no capture of pool 1 has begun' info wrong.wtr
# A stream that a wait draws into a capture begins no other.
printf '#wtr 1\ng 0 B 1 0\ne 1 1 0\nx 2 1 1\ng 3 B 2 1\n' >drawn.wtr
bad 'the stream is in a capture already' replay drawn.wtr

finish 'captures are told, kept and predicted'
