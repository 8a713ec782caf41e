#!/usr/bin/env bash
# page_data_test.sh WEIR SOURCE: the data of the page of `weir replay --report`: their size, and in a browser the states
# and curves that the page makes of them. SOURCE is the folder of training_trace.py.
set -uo pipefail
weir=$1 source=$2
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
source "${BASH_SOURCE[0]%/*}/rig.sh"

# report PAGE TRACE STRATEGIES [OPTION...]
report() {
    "$weir" replay "$2" --strategy "$3" --no-timing "${@:4}" --report "$1" >/dev/null 2>report.log
    [ $? -le 1 ] || { cat report.log; complain "no report of $2"; }
}

# --- size, and the same bytes for the same input ---

strategies=caching,caching+vm,size_class,bump,pytorch
python3 "$source/training_trace.py" 200000 >training.wtr
report training.html training.wtr $strategies
mv training.html first.html
report training.html training.wtr $strategies
cmp -s first.html training.html || complain 'two pages of one trace differ'
size=$(wc -c <training.html)
echo "200,000 events, 5 strategies and the plan: $size bytes"
[ "$size" -lt 1200000 ] || complain 'the page has more than a byte for each event and row'

if [ -e /dev/full ]; then
    "$weir" replay training.wtr --strategy caching --report /dev/full >/dev/null 2>full.log
    [ $? = 2 ] || complain 'a full disk is no error'
fi

# --- in a browser ---

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    [ $failures = 0 ] || exit 1
    echo 'skipped: no chromium'
    exit 77
}

# checked PAGE VALUE: prints an expression of the page when it is ready or shows a problem. check.js is added to it.
checked() {
    PYTHONDONTWRITEBYTECODE=1 python3 "$source/browser.py" "$browser" "$1" \
        'document.documentElement.dataset.ready === "true" || !byId("problem").hidden' "$(cat check.js); $2"
}

# The state at an event by one pass over all blocks and regions, compared with the state that the page finds.
cat >check.js <<'END'
const wrong = [];

function same(name, found, expected) {
    if (found !== expected && wrong.length < 10) wrong.push(`${name}: ${found}, not ${expected}`);
}

function checkState(result, event) {
    const { alloc, free, size } = trace, { address, capacity, added, removed, regionSize } = result;
    const now = Math.min(event, result.end), state = stateAt(result, event), at = `${result.raw.strategy} at ${event}`;
    let live = 0, requested = 0, handed = 0, blocks = 0, reserved = 0;
    for (let block = 0; block < alloc.length; block++) {
        if (alloc[block] > now || free[block] <= now) continue;
        live += size[block];
        if (address[block] < 0) continue;
        requested += size[block];
        handed += capacity[block];
        blocks++;
    }
    for (let region = 0; region < added.length; region++)
        if (added[region] <= now && removed[region] > now) reserved += regionSize[region];
    same(at + ", blocks", state.blocks + state.outside, blocks);
    same(at + ", requested", state.requested, requested);
    same(at + ", handed", state.handed, handed);
    same(at + ", reserved", state.reserved, reserved);
    same(at + ", curve", result.reserved.at(event), reserved);
    if (result === trace.longest) same(at + ", live", result.live.at(event), live);
}

function checkRange(curve, from, to) {
    const range = curve.range(from, to);
    let low = Infinity, high = -Infinity;
    for (let event = from; event < to; event++) {
        low = Math.min(low, curve.at(event));
        high = Math.max(high, curve.at(event));
    }
    for (const [name, expected] of Object.entries({ first: curve.at(from), low, high, last: curve.at(to - 1) }))
        same(`${name} of ${from} to ${to}`, range[name], expected);
}

async function checkAll() {
    await loadPlaces(trace.results.at(-1)); /* the plan is not shown at first */
    let seed = 1;
    const dice = sides => Math.floor((seed = seed * 48271 % 2147483647) / 2147483647 * sides);
    const events = [0, trace.events - 1, ...Array.from({ length: 100 }, () => dice(trace.events))];
    for (const result of trace.results) {
        for (const event of events) checkState(result, event);
        for (let i = 0; i < 100; i++) {
            const from = dice(trace.events), to = from + 1 + dice(Math.min(trace.events - from, 10 ** (1 + i % 5)));
            checkRange(result.reserved, from, to);
            checkRange(trace.longest.live, from, to);
        }
        /* The figures of weir itself at the worst event. */
        const { raw } = result, state = stateAt(result, raw.worst_event);
        same(raw.strategy + ", peak", state.reserved, raw.peak_reserved_bytes);
        same(raw.strategy + ", free", state.unused, state.reserved - state.handed);
        /* A block in a front cache is free to the page, and not merged with its neighbours to the pool. */
        same(raw.strategy + ", largest", Math.min(state.largest, raw.largest_free_bytes ?? state.largest), raw.largest_free_bytes ?? state.largest);
        same(raw.strategy + ", overlaps", state.overlaps, 0);
        same(raw.strategy + ", outside", state.outside, 0);
    }
    return wrong.length ? wrong.join("; ") : `${events.length * trace.results.length} states`;
}
END
result=$(checked training.html 'checkAll()')
[ "$result" = '612 states' ] || complain "states of the page: $result"

# Damaged data, and a browser that cannot unpack them, have a message.
python3 - <<'END'
import re

with open("training.html", encoding="utf-8") as file:
    text = file.read()
column = re.search(r'id="0\.tag">([^<]*)<', text)
middle = (column.start(1) + column.end(1)) // 2
with open("damaged.html", "w", encoding="utf-8") as file:
    file.write(text[:middle] + ("A" if text[middle] != "A" else "B") + text[middle + 1:])
with open("old.html", "w", encoding="utf-8") as file:
    file.write(text.replace("<head>", "<head><script>delete self.DecompressionStream;</script>", 1))
END
: >check.js
problem='byId("problem").textContent'
result=$(checked damaged.html "$problem")
[[ $result == *'The data of this page cannot be read'* ]] || complain "damaged data: $result"
result=$(checked old.html "$problem")
[[ $result == *'This browser is too old'* ]] || complain "no DecompressionStream: $result"

# Blocks from before the window come first, wherever their lines stand; a reallocated block keeps its stream; a block
# that was not placed has no address; events of other devices leave gaps.
cat >small.wtr <<'END'
#wtr 1
#dev 0 name="a"
#dev 1 name="b"
@0 first
@1 second
a 0 10 1000 2 0 @1
a 0 11 7000 3 0 d=1
p 12 4096 0 0x7f0000000000
r 1 10 13 5000000000 0
f 2 12 0 0
p 14 512 1
a 3 15 1000 2 0 @0
f 4 13 - 0
a 5 16 17179869184 2 0
END
cat >check.js <<'END'
const list = values => [...values].map(value => value === NEVER ? "-" : value).join(" ");
const listAll = ({ alloc, free, size, stream, tag, results: [first] }) =>
    [alloc, free, size, stream, tag, first.capacity, first.address.map(Math.sign)].map(list).join(", ");
END
report small.html small.wtr direct --device 0 --capacity 8GiB
result=$(checked small.html 'listAll(trace)')
expected='-1 -1 0 3 6 8, 4 - 3 7 - -, 4096 512 1000 5000000000 1000 17179869184, 0 1 2 2 2 2, -1 -1 1 -1 0 -1, '
expected+='2097152 2097152 2097152 5001707520 2097152 0, 1 1 1 1 1 -1'
[ "$result" = "$expected" ] || complain "blocks of a small trace: $result"

# A block that was freed while work of two streams may still use it is pending, until its memory is used again.
cat >pending.wtr <<'END'
#wtr 1
a 0 0 4194304 0 0
u 10 0 1
w 20 1 5000000
f 30 0 0 0
a 40 1 2097152 0 0
y 60 *
a 70 2 2097152 0 0
END
report pending.html pending.wtr caching,direct
cat >check.js <<'END'
const pendingOf = ({ pending }) => [0, 1, 2, 3, 4, 5, 6].map(event => pending.at(event)).join(" ");
END
result=$(checked pending.html 'trace.results.map(pendingOf).join(", ")')
[ "$result" = '0 0 0 4194304 0 0 0, 0 0 0 4194304 4194304 4194304 0, 0 0 0 0 0 0 0' ] || complain "pending bytes: $result"

# The map of the recorded allocator, also of a snapshot that shows one moment.
printf '#wtr 1\ns 0 + 0x10000000 4194304 0\np 0 1048576 0 0x10100000\n' >moment.wtr
report moment.html moment.wtr direct
cat >check.js <<'END'
const { raw, address, capacity, regionAddress, regionSize } = trace.results[0];
END
result=$(checked moment.html '[raw.strategy, ...address, ...capacity, ...regionAddress, ...regionSize].join(" ")')
[ "$result" = 'recorded 269484032 1048576 268435456 4194304' ] || complain "the map of one moment: $result"

finish 'page: small, and its states are those of a pass over all blocks'
