#!/usr/bin/env bash
# page_test.sh WEIR TRACES [AXE]: the page of `weir replay --report` in a browser. page_test.py has the checks. With AXE, a
# path of axe-core's axe.min.js, that checker judges the page instead.
set -uo pipefail
weir=$1 traces=$2 axe=${3:-} here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    { echo 'skipped: no chromium'; exit 77; }
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
[ -z "$axe" ] || [ -r "$axe" ] || { echo 'skipped: no axe-core (script/engines --axe)'; exit 77; }
source "${BASH_SOURCE[0]%/*}/rig.sh"

"$weir" replay "$traces/ort_unet_dyn_res.wtr.xz" --strategy caching+vm,caching --report page.html --json --no-timing >page.json ||
    { echo 'FAILED: no report'; exit 1; }

# Two streams, call stacks, two tags of the same text, a phase, and times.
cat >small.wtr <<'END'
#wtr 1
@0 model.py:forward:10
#stack 0 model.py:10:forward
#stack 0 train.py:3:main
@1 model.py:forward:10
#stack 1 model.py:10:forward
#stack 1 eval.py:7:main
@2 optimizer
m 0 B step
a 1000 0 3145728 0 0 @0
a 2000 1 1048576 1 0 @1
a 3000 2 2097152 0 0 @2
a 4000 3 4194304 0 0
m 5000 E step
f 6000 1 1 0
f 7000 0 0 0
a 9000 4 1048576 0 0 @2
END
"$weir" replay small.wtr --strategy direct,caching --report small.html >/dev/null || { echo 'FAILED: no report of tags'; exit 1; }

# Device 1 begins late, and then its events follow fast.
{
    echo '#wtr 1'
    for ((i = 0; i < 50; i++)); do echo "a $((i * 1000)) $i 1048576 0 0 d=0"; done
    for ((i = 50; i < 100; i++)); do echo "a $((1000000 + i * 100000)) $i 1048576 1 0 d=1"; done
} >late.wtr
"$weir" replay late.wtr --strategy direct --report late.html >/dev/null || { echo 'FAILED: no report of two devices'; exit 1; }
# The program was refused memory on device 1.
cat >refused.wtr <<'END'
#wtr 1
@0 model.py:forward:10
@1 model.py:cache:20
a 0 0 1048576 0 0 d=0 @0
a 10 1 8388608 1 0 d=1 @1
a 20 2 8388608 1 0 d=1 @0
f 30 1 1 0
a 40 3 4194304 1 0 d=1 @1
o 50 67108864 1048576 d=1
END
"$weir" replay refused.wtr --strategy caching,pytorch --report refused.html >/dev/null ||
    { echo 'FAILED: no report of a refused request'; exit 1; }
PYTHONDONTWRITEBYTECODE=1 python3 "$here/page_test.py" "$browser" "$axe"
