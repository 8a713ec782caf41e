#!/usr/bin/env bash
# json_test.sh WEIR SCHEMA CHECKER TRACES: what `weir replay --json` prints fits its schema, for every kind of member, and
# is the same in every run without timing; a document with a mistake does not fit.
set -uo pipefail
weir=$1 schema=$2 checker=$3 traces=$4
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
source "${BASH_SOURCE[0]%/*}/rig.sh"

# writes FILE ARGUMENTS...: `weir replay` writes the document; hazards (exit status 1) are a result.
writes() {
    local file=$1 status=0
    shift
    "$weir" replay --json "$@" >"$file" 2>err || status=$?
    [ $status -le 1 ] || complain "weir replay $*: exit status $status: $(cat err)"
}

# Two streams, a use on the second, the allocator's own segments, and at the end a request that was refused.
cat >full.wtr <<'END'
#wtr 1
#dev 0 cap=67108864
@0 layer
p 0 1048576 0 0x7f0000000000
s 0 + 0x7f0000000000 20971520 0
a 1 1 8388608 0 0 addr=0x7f0000100000 @0
w 2 0 5000
u 3 1 1
f 4 1 0 0
a 5 2 8388608 1 0 addr=0x7f0000900000
o 6 52428800 1048576
END
small=$traces/ort_unet_dyn_res.wtr.xz
writes one.json "$small"
writes many.json "$small" full.wtr --sweep=1:1.1:0.05 --host=1 --no-timing
writes full.json full.wtr --strategy caching,pytorch,size_class+vm,direct
writes limit.json "$small" --limit 40MiB
writes wrong.json full.wtr --ignore-uses --check
python3 "$checker" "$schema" one.json many.json full.json limit.json wrong.json || complain 'a document does not fit'

for member in '"verdict": "' '"enough_bytes": [0-9]' '"held_by": \[$' '"advice": \[$' '"strategy": "recorded"' '"lanes": \[$' \
    '"addresses_total": [1-9]'; do
    grep -qE -- "$member" ./*.json || complain "no document has $member, so it was not compared with the schema"
done

python3 - limit.json <<'END' || complain 'the report of running out is not in lines'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    reports = [row["oom"]["report"] for row in json.load(file)["results"] if row["oom"]]
sys.exit(not any("\n" in report for report in reports) or any("\\x0a" in report for report in reports))
END

sed 's/"peak_reserved_bytes": \([0-9]*\)/"peak_reserved_bytes": "\1"/' one.json >text.json
sed 's/"waits"/"wait"/' one.json >name.json
sed 's/"version": 1/"version": 2/' one.json >version.json
for mistake in text name version; do
    python3 "$checker" "$schema" $mistake.json >/dev/null && complain "the mistake in $mistake.json is not found"
done

writes first.json "$small" full.wtr --no-timing --seed 7
writes second.json "$small" full.wtr --no-timing --seed 7
cmp first.json second.json || complain 'two runs without timing differ'

finish 'JSON: fits its schema'
