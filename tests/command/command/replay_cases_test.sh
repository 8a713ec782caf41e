#!/usr/bin/env bash
# replay_cases_test.sh WEIR CASES: small recordings that once needed too much memory, or waits, with the right figures.
set -uo pipefail
weir=$1 cases=$2
source "${BASH_SOURCE[0]%/*}/rig.sh"

# The program records its event after the free, in the place of before it: no work of the use can follow the event.
sed -e '/^e /d' -e 's/^x 3500/e 3100 7 1\n&/' "$cases/event-after-free-own-work.wtr" >event-after-free.wtr

# FSDP: each parameter is gathered on stream 1, used on stream 2 and freed on stream 1, while the next one is gathered. The
# host runs far ahead of the device. sharded MIB...: sizes of the parameters, in turn.
sharded() {
    awk -v sizes="$*" 'BEGIN {
        print "#wtr 1"
        n = split(sizes, mib, " ")
        for (i = 0; i <= 400; i++) {
            print "a", 10 * i, i, mib[i % n + 1] * 1048576, 1, 0
            print "w", 10 * i + 1, 1, 300000
            print "e", 10 * i + 2, i, 1
            if (i == 0) continue
            print "x", 10 * i + 3, i - 1, 2
            print "u", 10 * i + 4, i - 1, 2
            print "w", 10 * i + 5, 2, 1000000
            print "f", 10 * i + 6, i - 1, 1, 0
        }
    }'
}
sharded 64 >sharded.wtr
sharded 200 50 50 120 >sharded-sizes.wtr

# figure STRATEGY COLUMN: of the replay in the file csv.
figure() {
    awk -F, -v strategy="$1" -v column="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) at = i }
        $3 == strategy { print $at; exit }' csv
}

# Reserved over the peak of live bytes: at most MOST, or what the model of PyTorch's allocator needs (pytorch); out: the
# request of event MOST is refused. Waits of streams and of the host: a number, or from-to.
rows=0
while read -r file strategy most waits options; do
    case $file in '' | '#'*) continue ;; esac
    rows=$((rows + 1))
    path=$cases/$file
    [ -e "$path" ] || path=$file
    # shellcheck disable=SC2086 # options are words
    "$weir" replay "$path" -q --no-timing --csv -s "$strategy,pytorch" $options >csv 2>err || complain "$file: $(cat err)"
    row="$file $strategy ${options:-}"
    out=$(figure "$strategy" oom_event) ratio=$(figure "$strategy" reserved_over_live)
    waited=$(figure "$strategy" waits)
    case $most in
    out:*) [ "$out" = "${most#out:}" ] || complain "$row: out of memory at event '$out' in the place of ${most#out:}" ;;
    pytorch) most=$(figure pytorch reserved_over_live) ;;&
    *)
        [ -z "$out" ] || complain "$row: out of memory at event $out"
        awk -v is="$ratio" -v most="$most" 'BEGIN { exit !(is >= 1 && is <= most) }' ||
            complain "$row: reserved is '$ratio' of live, not at most $most"
        ;;
    esac
    [ "$waited" -ge "${waits%-*}" ] && [ "$waited" -le "${waits#*-}" ] ||
        complain "$row: $waited waits in the place of $waits"
    [ "$(figure "$strategy" hazards)" = 0 ] || complain "$row: hazards"
done <<'END'
# An exchange gave the region away that fits the next request, and that request then split a larger idle one.
caching-splits-idle-region-layerwise.wtr  caching     pytorch  0
caching-splits-idle-region-layerwise.wtr  caching+vm  1.05     0
# A small block split an idle region, which then served no workspace.
caching-small-block-pins-workspace.wtr    caching     1.19     0
caching-small-block-pins-workspace.wtr    caching+vm  1.05     0
# Kernels are in flight: growing is dearer than a few waits.
vm-grows-instead-of-waiting.wtr           caching     1.06     0-9
vm-grows-instead-of-waiting.wtr           caching+vm  1.06     1-9
vm-grows-same-without-work.wtr            caching     1.06     0
vm-grows-same-without-work.wtr            caching+vm  1.06     0
# A stream waits for the use of its own block on another stream, where that is enough.
wait-first-own-work.wtr                   caching     1        1       --growth wait-first
wait-first-own-work.wtr                   caching+vm  1.04     1       --growth wait-first
# The program's event was recorded before the free, so the use may have gone on: one wait. After it: none.
event-after-free-own-work.wtr             caching     1        0-1
event-after-free-own-work.wtr             caching+vm  1.04     0-1
event-after-free.wtr                      caching     1        0
event-after-free.wtr                      caching+vm  1.04     0
# Gathered on one stream, used on another one, freed on the first, far ahead of the device.
sharded.wtr                               caching     1        399-400  --growth wait-first
sharded.wtr                               caching+vm  1.04     399-400  --growth wait-first
sharded-sizes.wtr                         caching     1.41     1-400    --growth wait-first
sharded-sizes.wtr                         caching+vm  1.04     1-400    --growth wait-first
# Temporaries that grow by a little each step.
growth-c01b_growing3.wtr.xz               caching     1.10     0
growth-c01b_growing3.wtr.xz               caching+vm  1.10     0
growth-c01b_growing3.wtr.xz               size_class  1.10     0
growth-c09_cat_kv.wtr.xz                  caching     1.10     0
growth-c09_cat_kv.wtr.xz                  caching+vm  1.10     0
# Large blocks that grow in turn, and sessions on many streams.
growth-c02_stairs.wtr                     caching     1.001    0
growth-c02_stairs.wtr                     caching+vm  1.04     0
growth-c08_sessions.wtr                   caching     1.001    0
growth-c08_sessions.wtr                   caching+vm  1.04     0
# Large requests of size_class are served as those of caching, on a device of 80 MiB.
growth-c07c_small.wtr                     caching     1.12     0
growth-c07c_small.wtr                     size_class  1.12     0
# PyTorch's allocator asks the device alone once it has given cached segments back, and runs out here.
growth-c04b_pending_split.wtr             pytorch     out:7    1
growth-c04b_pending_split.wtr             caching     1        1
END
[ $rows = 31 ] || complain "$rows rows were read"

finish "$rows replays need what they should"
