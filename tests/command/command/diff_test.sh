#!/usr/bin/env bash
# diff_test.sh WEIR: `weir diff`: moments of one trace and of two, by tag, stack and size, and wrong usage.
set -uo pipefail
weir=$1
source "${BASH_SOURCE[0]%/*}/rig.sh"

cat >one.wtr <<'END'
#wtr 1
@0 model.py:forward:10
#stack 0 at::empty
#stack 0 model.py:10:forward
#stack 0 lib/torch/nn/module.py:7:call
#stack 0 train.py:3:main
@1 model.py:forward:12
#stack 1 model.py:12:forward
#stack 1 train.py:3:main
p 9 1048576 0
a 1000 0 3145728 0 0 @0
a 2000 1 1048576 0 0 @1
f 3000 0 0 0
a 4000 2 2097152 0 0 @0
a 5000 3 512 0 0
END
sed 's/4000 2 2097152/4000 2 8388608/' one.wtr >two.wtr

row() { grep -qE "^ *$1\$" out || complain "no row '$1' in: $(cat out)"; }

good ': 5.00 MiB live in 3 blocks' diff one.wtr --at 2 --at end
row '-1024 KiB +2\.00 MiB +2 +3\.00 MiB +1 +all'
row '-1\.00 MiB +2\.00 MiB +1 +3\.00 MiB +1 +model.py:forward:10'
row '\+512 B +512 B +1 +0 B +0 +untagged'
grep -q 'before the window' out && complain 'a block that is live at both moments came or went'
good 'all' diff one.wtr --at start --at 2.5us --by stack # from the outermost frame, without those of the runtime
row '\+4\.00 MiB +4\.00 MiB +2 +0 B +0 +train.py:3:main'
row '\+3\.00 MiB +3\.00 MiB +1 +0 B +0 +  model.py:10:forward'
row '\+1\.00 MiB +1\.00 MiB +1 +0 B +0 +  model.py:12:forward'
grep -q 'torch/nn\|at::' out && complain 'frames of the runtime in the tree'
good 'event 2: 5.00 MiB live' diff one.wtr # the start and the peak
good '+6.00 MiB' diff one.wtr two.wtr --at end --by size
row '\+8\.00 MiB +8\.00 MiB +1 +0 B +0 +blocks of 8\.00 MiB'
row '-2\.00 MiB +0 B +0 +2\.00 MiB +1 +blocks of 2\.00 MiB'
good '"came": {' diff one.wtr two.wtr --at end --json
tr -d ' \n' <out | grep -qF '"came":{"bytes":6291456,"blocks":0},"went":{"bytes":0,"blocks":0},"by":"tag"' ||
    complain "the JSON of two traces: $(cat out)"

# Steps of 3 requests, each of which leaves 1,002 bytes.
{
    echo '#wtr 1'
    for ((i = 0; i < 12; i++)); do
        echo "a $((2 * i)) $i $((1000 + i % 3)) 0 0"
        ((i % 3 == 2)) || echo "f $((2 * i + 1)) $i 0 0"
    done
} >steps.wtr
good '+1002 B' diff steps.wtr --at step:1 --at step:2 --by size
row '\+1002 B +1002 B +1 +0 B +0 +blocks of 1002 B'

bad 'has the steps 0 to 4' diff steps.wtr --at step:5 --at end
bad 'neither an event, a time' diff one.wtr --at soon --at end
bad 'has 6 events' diff one.wtr --at 6 --at end
bad 'one trace needs two moments' diff one.wtr --at 2
bad 'more than two moments' diff one.wtr --at 1 --at 2 --at 3
bad 'more than two traces' diff one.wtr two.wtr steps.wtr
bad 'no trace is named' diff
bad 'neither tag, stack nor size' diff one.wtr --by colour
finish 'what came and went: moments, groups, outputs'
