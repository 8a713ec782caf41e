#!/usr/bin/env bash
# died_test.sh WEIR: a snapshot of three devices, written when memory ran out, in one command: for each device the right
# answer, the row of the recorded allocator, and the page with call stacks.
set -uo pipefail
weir=$1
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
source "${BASH_SOURCE[0]%/*}/rig.sh"

# Device 0 dies of fragmentation: 24 MiB are free in four pieces of at most 8 MiB, and 10 MiB are asked for. Device 1 dies
# because 20 + 30 MiB are more than its 21 MiB. Device 2 lives.
python3 - <<'END'
import pickle

MIB = 1 << 20
BASE = [0x7f0000000000 + (device << 36) for device in range(3)]
clock = 0


def frames(function, line):
    return [{"filename": "/app/model.py", "name": function, "line": line},
            {"filename": "/app/train.py", "name": "main", "line": 7}]


def entry(action, device, address, size, function="forward", line=10, **more):
    global clock
    clock += 10
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": clock,
            "frames": frames(function, line), **more}


def freed(device, address, size):
    return [entry("free_requested", device, address, size), entry("free_completed", device, address, size)]


a, b = BASE[0], BASE[0] + 64 * MIB
zero = [entry("segment_alloc", 0, a, 20 * MIB), entry("alloc", 0, a, 8 * MIB),
        entry("alloc", 0, a + 8 * MIB, 8 * MIB, "weights", 20), entry("segment_alloc", 0, b, 20 * MIB),
        entry("alloc", 0, b, 8 * MIB), entry("alloc", 0, b + 8 * MIB, 8 * MIB, "weights", 20),
        *freed(0, a, 8 * MIB), *freed(0, b, 8 * MIB),
        entry("oom", 0, 0, 10 * MIB, "backward", 30, device_free=4 * MIB)]
one = [entry("segment_alloc", 1, BASE[1], 20 * MIB), entry("alloc", 1, BASE[1], 20 * MIB, "cache", 40),
       entry("oom", 1, 0, 30 * MIB, "attention", 50, device_free=1 * MIB)]
two = [entry("segment_alloc", 2, BASE[2], 20 * MIB), entry("alloc", 2, BASE[2], 12 * MIB), *freed(2, BASE[2], 12 * MIB)]


def segment(device, address, size, blocks):
    return {"device": device, "address": address, "total_size": size, "stream": 0, "segment_type": "large",
            "blocks": [{"address": at, "size": size, "requested_size": size if state == "active_allocated" else 0,
                        "state": state, "frames": []} for at, size, state in blocks]}


free, used = "inactive", "active_allocated"
segments = [segment(0, at, 20 * MIB, [(at, 8 * MIB, free), (at + 8 * MIB, 8 * MIB, used), (at + 16 * MIB, 4 * MIB, free)])
            for at in (a, b)]
segments += [segment(1, BASE[1], 20 * MIB, [(BASE[1], 20 * MIB, used)]),
             segment(2, BASE[2], 20 * MIB, [(BASE[2], 20 * MIB, free)])]
with open("died.pickle", "wb") as file:
    pickle.dump({"segments": segments, "device_traces": [zero, one, two]}, file)
END

good 'report: died.html' replay died.pickle --strategy caching,pytorch,direct --report died.html --no-timing
for device in 0 1 2; do # the part of the output for each device
    awk -v device="$device" '/^died.pickle, device/ { on = $0 ~ "device " device "($|:)" } /^all / { on = 0 } on' out >device.$device
done
# expect DEVICE LINE...: the part has each line
expect() {
    local device=$1 line
    shift
    for line in "$@"; do
        grep -qF -- "$line" "device.$device" || complain "device $device: no '$line' in: $(cat "device.$device")"
    done
}
expect 0 'the recorded program ran out of memory at event 8: it asked for 10.0 MiB, and 4.00 MiB were free' \
    'capacity 44.0 MiB, as the recording implies: 40.0 MiB reserved' '  recorded         40.0 MiB  1.250 ' \
    'verdict: recorded, refused at event 8: 10.00 MiB asked on stream 0: fragmented: 24.00 MiB free in 4 pieces of at most 8.00 MiB and 4.00 MiB not taken; in the way are 8.00 MiB in 1 block of "model.py:weights:20"' \
    'recorded ran out of memory on device 0 at event 8: 10.00 MiB asked on stream 0' \
    'held by   16.00 MiB in 2 blocks: model.py:weights:20' \
    'caching serves the request that the recorded program did not get; a device of 32.0 MiB is enough' \
    'pytorch runs out at the same event as the recorded program; a device of ' \
    'pytorch ran out of memory on device 0 at event 8: ' 'direct serves the request'
expect 1 'it asked for 30.0 MiB, and 1.00 MiB were free' 'capacity 21.0 MiB, as the recording implies' \
    '  recorded         20.0 MiB  1.000 ' 'caching runs out at the same event as the recorded program; a device of 50.0 MiB is enough' \
    'pytorch runs out at the same event as the recorded program; a device of ' \
    'direct runs out at the same event as the recorded program; a device of 50.0 MiB is enough' \
    'verdict: recorded, refused at event 11: 30.00 MiB asked on stream 0: too big by 29.00 MiB for any allocator: 20.00 MiB are live as asked, and the device gives at most 21.00 MiB' \
    'held by   20.00 MiB in 1 block: model.py:cache:40'
expect 2 'verdict: recorded, peak at event 13: 20.00 MiB reserved for 12.00 MiB live as asked: 8.00 MiB free in one piece' \
    '  recorded         20.0 MiB  1.667 ' '  caching '
grep -q 'ran out' device.2 && complain "device 2 died: $(cat device.2)"
grep -q '^all 3: ' out || complain 'no summary of the devices'

# The page has the devices, the recorded rows and the stacks.
"$weir" replay died.pickle --strategy caching --json --no-timing >died.json || complain 'no JSON'
python3 - <<'END' || complain 'JSON and page lack something'
import json
import sys

with open("died.json", encoding="utf-8") as file:
    devices = json.load(file)
with open("died.html", encoding="utf-8") as file:
    page = file.read()
wrong = [name for name in ("died.pickle, device 0", "died.pickle, device 1", "died.pickle, device 2", "model.py:weights:20",
                           "model.py:20:weights", "train.py:7:main") if name not in page]
wrong += [f"device {number}" for number, one in enumerate(devices) if one["device"] != number or
          one["results"][0]["strategy"] != "recorded" or (one["recorded_oom"] is None) != (number == 2)]
sys.exit("\n".join(wrong) if wrong else len(devices) != 3)
END
finish 'a snapshot that ends in out-of-memory: every device has its answer'
