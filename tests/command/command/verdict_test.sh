#!/usr/bin/env bash
# verdict_test.sh WEIR: the answer in one line: each cause, in a recording where it is the true one, in every output.
set -uo pipefail
weir=$1
source "${BASH_SOURCE[0]%/*}/rig.sh"
mib=1048576

# verdict TEXT FILE ARGUMENTS...
verdict() {
    local text=$1
    shift
    good "verdict: $text" replay -q --no-timing "$@"
}

# A recorded allocator, whose memory is known: segments (s), blocks, and the request that was refused (o SIZE FREE).
recording() { # NAME
    { printf '#wtr 1\n#clock order\n'; cat; } >"$1.wtr"
}

# 32 MiB are free, on a stream that did not ask.
recording others <<TRACE
s 0 + 0x10000000 $((32 * mib)) 0
s 0 + 0x20000000 $((8 * mib)) 1
a 1 1 $((32 * mib)) 0 0 addr=0x10000000
a 2 2 $((8 * mib)) 1 0 addr=0x20000000
f 3 1 0 0
f 4 2 1 0
a 5 3 $((8 * mib)) 1 0 addr=0x20000000
o 6 $((16 * mib)) $mib
TRACE
verdict 'recorded, refused at event 7: 16.00 MiB asked on stream 1: idle for other streams: 32.00 MiB are free in one piece, at most 0 B of them for this stream; 40.00 MiB reserved, 8.00 MiB live' \
    others.wtr -s caching

# The device has 64 MiB, the recorded allocator 16 MiB, and 2 MiB are free: the rest is held by others.
recording outside <<TRACE
#dev 0 cap=$((64 * mib))
s 0 + 0x10000000 $((16 * mib)) 0
a 1 1 $((16 * mib)) 0 0 addr=0x10000000
o 2 $((8 * mib)) $((2 * mib))
TRACE
verdict 'recorded, refused at event 2: 8.00 MiB asked on stream 0: held outside of this pool: 46.00 MiB of the device'"'"'s 64.00 MiB belong to other pools, libraries or processes, 2.00 MiB are free' \
    outside.wtr -s caching

# No line of segments: the first strategy is judged.
recording limited <<TRACE
a 1 1 $((20 * mib)) 0 0
f 2 1 0 0
a 3 2 $((18 * mib)) 1 0
a 4 3 $((30 * mib)) 1 0
TRACE
verdict 'caching, refused at event 3: 30.00 MiB asked on stream ' limited.wtr -s caching -l 40MiB
grep -qF 'too big by 8.00 MiB for any allocator: 18.00 MiB are live as asked, and the limit is 40.00 MiB' out || complain "$(cat out)"

# Eight streams, one after the other: the model of PyTorch keeps the memory of each, caching needs that of one.
recording sessions < <(
    for stream in 0 1 2 3 4 5 6 7; do
        printf 'a %d %d %d %d 0\n' $((2 * stream)) $stream $((16 * mib)) $stream
        printf 'f %d %d %d 0\ny %d *\n' $((2 * stream + 1)) $stream $stream $((2 * stream + 1))
    done)
verdict 'pytorch, peak at event 21: 128.00 MiB reserved for 16.00 MiB live as asked: 112.00 MiB are idle for other streams' \
    sessions.wtr -s pytorch
verdict 'caching, peak at event 0: 16.00 MiB reserved for 16.00 MiB live as asked: nearly all of it is live' sessions.wtr -s caching

# PyTorch's model: a block that another stream uses is pending and no more live, and a fraction of the device is all that
# there is.
recording pending <<TRACE
a 0 0 $((16 * mib)) 0 0
w 1 1 1000000000
u 2 0 1
f 3 0 0 0
a 4 1 $((16 * mib)) 0 0
TRACE
verdict 'pytorch[], peak at event 4: 32.00 MiB reserved for 16.00 MiB live as asked: 16.00 MiB are freed, and queued work may still use them' \
    pending.wtr -s 'pytorch[]'
grep -q 'verdict: .* rounding' out && complain 'pending blocks count as live'
recording fraction <<TRACE
a 0 0 $((16 * mib)) 0 0
a 1 1 $((16 * mib)) 0 0
a 2 2 $((16 * mib)) 0 0
TRACE
verdict 'pytorch[per_process_memory_fraction:0.5], refused at event 2: 16.00 MiB asked on stream 0: too big by 8.00 MiB for any allocator: 32.00 MiB are live as asked, and the device gives at most 40.00 MiB' \
    fraction.wtr -s 'pytorch[per_process_memory_fraction:0.5]' --capacity 80MiB

# A buffer that grows by 1 MiB at each step, with the old one alive until the new one is filled.
recording growing < <(
    for step in $(seq 0 19); do
        printf 'a %d %d %d 0 0\n' $((2 * step)) $step $(((10 + step) * mib))
        [ "$step" = 0 ] || printf 'f %d %d 0 0\n' $((2 * step + 1)) $((step - 1))
    done)
verdict 'pytorch, peak at event ' growing.wtr -s pytorch
grep -qE 'verdict: .*; [0-9]+ requests grew from 10\.0 to [0-9.]+ MiB, each a little larger than the one before' out ||
    complain "no series: $(grep verdict out)"

grep -qF "; cure: take the final size at once, or settings that 'weir advise' finds and proves" out || complain 'no cure of a series'

# Cause, holder and cure stand in the one line: small blocks that live long between large ones; a list that grows with
# each step; a model that waits for a stream.
recording pieces < <(
    printf '@0 cache.py:put:7\n@1 step.py:work:3\n'
    for i in $(seq 0 11); do
        printf 'a %d %d %d 0 0 @1\nf %d %d 0 0\n' $((5 * i)) $((3 * i)) $((36 * mib)) $((5 * i + 1)) $((3 * i))
        printf 'a %d %d %d 0 0 @0\n' $((5 * i + 2)) $((3 * i + 1)) $((4 * mib))
        printf 'a %d %d %d 0 0 @1\n' $((5 * i + 3)) $((3 * i + 2)) $((32 * mib))
    done
    for i in $(seq 0 11); do printf 'f %d %d 0 0\n' $((60 + i)) $((3 * i + 2)); done
    printf 'a 80 36 %d 0 0 @1\n' $((120 * mib)))
verdict 'pytorch[], refused at event 60: 120.00 MiB asked on stream 0: fragmented: 384.00 MiB free in pieces and 48.00 MiB not taken; 432.00 MiB reserved, 48.00 MiB live; "cache.py:put:7" holds the most, 48.00 MiB in 12 blocks; cure: settings that join or avoid the pieces' \
    pieces.wtr -s 'pytorch[]' --capacity 480MiB
recording leak < <(
    printf '@0 losses.append\n@1 model.py:forward:8\n'
    for i in $(seq 0 59); do
        printf 'a %d %d %d 0 0 @1\na %d %d %d 0 0 @0\nf %d %d 0 0\n' $((3 * i)) $((2 * i)) $((200 * mib)) \
            $((3 * i + 1)) $((2 * i + 1)) $((20 * mib)) $((3 * i + 2)) $((2 * i))
    done)
for row in 'pytorch[]' caching; do
    verdict "$row, refused at event 121: 20.00 MiB asked on stream " leak.wtr -s "$row" --capacity 1000MiB
    for words in ': too big by 20.00 MiB for any allocator: 1000.00 MiB are live' '; "losses.append" holds the most, 800.00 MiB in 40 blocks' \
        '; "losses.append" had 400.0 MiB when half of the events had happened; cure: hold less, of the largest holder first'; do
        grep verdict: out | grep -qF "$words" || complain "no '$words': $(grep verdict out)"
    done
done
grep -q 'verdict: .*; cure: wait for the streams that use the freed memory' <("$weir" replay -q --no-timing pending.wtr -s 'pytorch[]') ||
    complain 'no cure of a wait'
grep -q 'verdict: .*cure' <("$weir" replay -q --no-timing sessions.wtr -s caching) && complain 'a cure for nothing'
"$weir" info outside.wtr | sed -n 2p | grep -q '^  verdict    refused at event 2: 8.00 MiB' ||
    complain 'the verdict is not the first line of info'

good '"cause": "none"' replay -q --no-timing -s direct sessions.wtr --json

# The other outputs.
good '"cause": "outside"' replay -q --no-timing -s caching outside.wtr --json
good '"text": "8.00 MiB asked on stream 0: held outside of this pool' replay -q --no-timing -s caching outside.wtr --json
good ',outside' replay -q --no-timing -s caching outside.wtr --csv
good '  verdict    refused at event 2: 8.00 MiB asked on stream 0: held outside of this pool' info outside.wtr
good '"cause": "other_streams"' info others.wtr --json
sed 's/^s 0/@1 weights\n&/; s/^a 1 .*/& @1/' outside.wtr >tagged.wtr
good '  held by    16.0 MiB in 1 block: weights' info tagged.wtr
good '  plan       24.0 MiB would be enough if all lives were known beforehand; no plan needs less than 24.0 MiB' info tagged.wtr
good '  plan ' replay -q --no-timing -s caching tagged.wtr
{
    echo '#wtr 1'
    for ((i = 0; i < 12; i++)); do echo "a $i $i $((1000 + i % 3)) 0 0"; done
} >steps.wtr
good '  steps      4 of 3 requests each are the same, from event 0 to event 11: 100 % of the requests; live memory grows by 2.93 KiB a step' \
    info steps.wtr
"$weir" info steps.wtr --json >out || complain 'no JSON of steps'
grep -A6 '"steps": {' out | grep -qF '"growth_bytes": 3003' || complain 'no growth in JSON'
grep -A3 '"plan": {' out | grep -qF '"bytes": 12288' || complain 'no plan in JSON' # 12 blocks of 1,024 bytes
# A refused request, and nothing tells how large the device is: an unlimited device judges nothing.
printf '#wtr 1\na 0 0 1048576 0 0\no 1 8388608 0\n' >unknown.wtr
good '  caching is not judged, because the size of the device is not known; a device of 10.0 MiB is enough' \
    replay -q --no-timing -s caching unknown.wtr
good '"verdict": "unknown"' replay -q --no-timing -s caching unknown.wtr --json
good '  caching serves the request' replay -q --no-timing -s caching unknown.wtr --capacity 16MiB
good 'report: page.html' replay -q --no-timing -s caching outside.wtr --report page.html
grep -qF 'held outside of this pool: 46.00 MiB' page.html || complain 'the page has no verdict'
finish 'the verdict: causes, figures and outputs'
