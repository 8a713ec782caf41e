#!/usr/bin/env bash
# advise_test.sh WEIR: the advice for bundled and made recordings; each figure is that of a replay of its row.
set -uo pipefail
weir=$1
source "${BASH_SOURCE[0]%/*}/rig.sh"
mib=1048576

recording() { # NAME
    { printf '#wtr 1\n#clock order\n'; cat; } >"$1.wtr"
}

# advice SENTENCE TRACE ARGUMENTS...: the first line, and what `weir replay` reserves for the row of each cure.
advice() {
    local sentence=$1 trace=$2 row growth peak served
    shift
    good "$sentence" advise "$@"
    [ "$(head -n 1 out)" = "$sentence." ] || complain "weir advise $*: '$(head -n 1 out)', not '$sentence.'"
    good '"cures"' advise "$@" --json
    cp out advice.json
    local now='' cures=0
    while IFS='|' read -r row growth peak served; do
        "$weir" replay "$@" -q --json --no-timing -s "$row" --growth "$growth" >again 2>&1 || complain "$(cat again)"
        grep -F "\"strategy\": \"$row\"" -A 40 again | grep -qF "\"peak_reserved_bytes\": $peak," ||
            complain "weir advise $trace: $row: $peak bytes are foretold; $(grep -F '"peak_reserved' again)"
        now=${now:-$served}
        cures=$((cures + 1))
    done < <(awk -F'"' '
        /"cures": \[/ { on = 1 } /^  \],/ { on = 0 }
        on && /"strategy"/ { row = $4 }
        on && /"growth"/ { growth = $4 != "" ? $4 : "balanced" }
        on && /"served"/ { served = $0 ~ /true/ }
        on && /"peak_reserved_bytes"/ { gsub(/[^0-9]/, "", $3); peak = $3 }
        on && /"cure":/ { }
        on && /^    }/ { print row "|" growth "|" peak "|" served }' advice.json)
    [ $cures -ge 2 ] || complain "weir advise $trace: $cures cures were replayed"
}

# --- bundled recordings: the sentences ---

while IFS='|' read -r trace sentence; do
    advice "$sentence" "$trace"
done <<'TABLE'
llama_ctx_dyn|Use a pool of weir, WEIR_TORCH=strategy:caching: this run then reserves 60.0 MiB, not 66.0 MiB as with PyTorch's allocator (9.1 % less)
ort_unet_dyn_res|Use a pool of weir, WEIR_TORCH=strategy:caching: this run then reserves 68.0 MiB, not 222 MiB as with PyTorch's allocator (69.4 % less)
graphs_sessions|Use a pool of weir, WEIR_TORCH=strategy:caching,virtual_memory:0: this run then reserves 400 MiB, not 3.09 GiB as with torch_npu (87.4 % less)
TABLE
grep -qF 'this recording captures graphs' advice.json || complain 'no word of the graphs'

# --- a request that the program was refused ---

# Three segments of 20 MiB, each with one live block of 5 MiB: 45 MiB are free, and no segment has more than 15 in one
# piece. One range that grows has 20. On 64 MiB there is no room for another segment.
recording pieces < <(
    printf '#src torch-snapshot pieces.pickle dev0\n#dev 0 cap=%d\n' $((64 * mib))
    for block in $(seq 0 11); do printf 'a %d %d %d 0 0\n' "$block" "$block" $((5 * mib)); done
    for block in 1 2 3 4 6 7 8 9 11; do printf 'f %d %d 0 0\n' $((12 + block)) "$block"; done
    printf 'a 30 12 %d 0 0\n' $((18 * mib)))
advice 'Set PYTORCH_ALLOC_CONF=expandable_segments:True: this run is then served; as it is, a request for 18.0 MiB is refused at event 21' pieces.wtr
"$weir" advise pieces.wtr >out
grep -qxF '  export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True    # older name' out || complain "$(cat out)"
grep -qF 'as it is: PyTorch with its defaults; the recording does not tell the settings' out || complain "$(cat out)"
advice 'No setting serves this run on this device: the request for 5.00 MiB at event 4 is refused; a device of 60.0 MiB is enough (Use a pool of weir, WEIR_TORCH=strategy:caching)' pieces.wtr --capacity 32MiB
"$weir" advise pieces.wtr --capacity 32MiB | grep -q export && complain 'lines to paste, though nothing serves'

# --- the settings that the recording tells ---

# The advice keeps those that the search does not know, and gives the whole string.
sed 's/^#src.*/&\n#note allocator settings: release_lock_on_cudamalloc:True, max_split_size_mb: 64/' pieces.wtr >told.wtr
advice 'Set PYTORCH_ALLOC_CONF=release_lock_on_cudamalloc:True,expandable_segments:True,max_split_size_mb:64: this run is then served; as it is, a request for 18.0 MiB is refused at event 21' told.wtr
good 'as it is: PyTorch with release_lock_on_cudamalloc:True, max_split_size_mb: 64' advise told.wtr
good '  settings   release_lock_on_cudamalloc:True, max_split_size_mb: 64' info told.wtr
good '"allocator_settings": "release_lock_on_cudamalloc:True, max_split_size_mb: 64"' info told.wtr --json
good '#note allocator settings: release_lock_on_cudamalloc:True, max_split_size_mb: 64' import -q told.wtr
good '"settings": "release_lock_on_cudamalloc:True, max_split_size_mb: 64"' advise told.wtr --json

# Settings that are worse than the defaults are taken back.
recording rounded < <(
    printf '#src torch-snapshot rounded.pickle dev0\n#note allocator settings: roundup_power2_divisions:[1:2,>:2]\n'
    printf 'a 0 0 %d 0 0\n' $((33 * mib)))
advice 'Unset PYTORCH_ALLOC_CONF: this run then reserves 34.0 MiB, not 48.0 MiB (29.2 % less)' rounded.wtr
"$weir" advise rounded.wtr | grep -qxF '  unset PYTORCH_ALLOC_CONF' || complain 'no unset'
# 34 of 70 MiB are 0.48571: a cap of 0.4857 would not do.
good 'set_per_process_memory_fraction(0.4858)' advise rounded.wtr --capacity 70MiB

# Another allocator, and settings of the other program: the defaults stand for them, and a line says so.
sed 's/^#note.*/#note allocator settings: backend:cudaMallocAsync/' rounded.wtr >async.wtr
good 'the recorded settings are not modelled, the defaults stand for them: backend:cudaMallocAsync: another allocator' advise async.wtr
sed 's/^#src.*/#src torch-snapshot dev0 of torch_npu/; s/^#note.*/#note allocator settings: expandable_segments:True/' pieces.wtr >npu.wtr
good 'as it is: torch_npu with ' advise npu.wtr
"$weir" advise npu.wtr --json | grep -qF 'torch_npu refuses them together with expandable_segments:True' || complain 'no exclusion'

# So many settings that a row has no room for them and others are not cut.
many=$(printf 'roundup_power2_divisions:2,%.0s' {1..30})
sed "s/^#note.*/#note allocator settings: ${many}max_split_size_mb:64/" rounded.wtr >many.wtr
good 'the recorded settings are not modelled, the defaults stand for them: longer than 640 bytes' advise many.wtr

# Every replay is counted on standard error if that is a terminal.
script -qec "$weir advise rounded.wtr" /dev/null </dev/null >out 2>&1 || complain 'advise on a terminal'
grep -q 'rounded.wtr: replay 1[0-9][0-9]' out || complain 'no count of replays'
"$weir" advise rounded.wtr 2>&1 | grep -q 'replay 1[0-9]' && complain 'a count of replays without a terminal'

# --- one setting that is enough already ---

recording plain <<TRACE
#src torch-snapshot plain.pickle dev0
a 0 0 $((64 * mib)) 0 0
TRACE
advice 'Leave the settings as they are: no other saves a thousandth, and no pool of weir a hundredth, of the 64.0 MiB that this run reserves for 64.0 MiB live' plain.wtr
"$weir" advise plain.wtr | grep -q export && complain 'lines to paste, though nothing is better'

# --- several devices ---

recording two <<TRACE
#dev 0
#dev 1
a 0 0 $((64 * mib)) 0 0 d=0
a 1 1 $((32 * mib)) 1 0 d=1
TRACE
good 'two.wtr, device 1: 32.0 MiB live' advise two.wtr
[ "$("$weir" advise two.wtr --json | grep -c '"advice"')" = 2 ] || complain 'not two answers'
[ "$("$weir" advise two.wtr --json -d 1 | grep -c '"advice"')" = 1 ] || complain 'not one answer'
"$weir" advise pieces.wtr -j 1 --json >one && "$weir" advise pieces.wtr -j 4 --json | cmp - one ||
    complain 'the answer depends on --jobs'

# --- a program's malloc: the allocators are measured, and `weir replay` measures them unasked ---

{ printf '#wtr 1\n#clock order\n#dev 0 name="host memory"\n'
  for block in $(seq 0 99); do printf 'a %d %d 100000 0 0\n' "$block" "$block"; done; } >malloc.wtr
good '  weir run --limit ' advise malloc.wtr
grep -qE '^(Use .*: this run then takes [0-9.]+ MiB resident, not [0-9.]+ MiB as with glibc|Leave the malloc as it is: .*)\.$' <(head -n 1 out) ||
    complain "$(head -n 1 out)"
grep -qF '  config.limit_bytes = UINT64_C(' out || complain "$(cat out)"
grep -q PYTORCH out && complain 'settings of PyTorch for a malloc'
good '"best": "' advise malloc.wtr --json
good 'host allocators, measured in 1 round' replay malloc.wtr -q -s caching
good '"peak_resident_bytes"' replay malloc.wtr -q -s caching --json
"$weir" replay malloc.wtr -q -s caching --no-timing | grep -q 'host allocators' && complain 'figures that differ, with --no-timing'
"$weir" replay malloc.wtr -q -s caching --csv >out || complain 'no CSV of a malloc'

# --- bad usage and input ---

bad 'exactly one trace is needed' advise
bad 'exactly one trace is needed' advise pieces.wtr two.wtr
bad 'there is no such file' advise nosuch
bad '--capacity 1MiB: less than one region' advise pieces.wtr --capacity 1MiB
bad '--capacity much: not a size' advise pieces.wtr --capacity much
bad '--jobs 0: not a number from 1' advise pieces.wtr --jobs 0
bad 'unknown option --jsn; did you mean --json?' advise pieces.wtr --jsn
printf 'not a trace\n' >not.wtr
bad 'not.wtr' advise not.wtr
finish 'the advice: sentences, rows, lines and bad input'
