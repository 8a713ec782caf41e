#!/usr/bin/env python3
"""advise_full.py WEIR TRACE...: compares `weir advise` with a full search over the settings that it changes.

For each trace every combination of the settings and of weir's pools is replayed (some 1,800 replays). Prints a line for
each trace: the memory with the program's own settings, the least of all combinations, that of the advice, and the share
of the best gain that the advice reaches. Exit status 1 if a share is below 0.9, if the advice is worse than the
defaults, or if a replay of the advised row does not reserve the bytes that the advice predicts.
"""
import itertools
import json
import subprocess
import sys

BATCH = 16  # rows of one `weir replay`
KNOBS = {
    "expandable_segments": ["True"],
    "max_split_size_mb": ["32", "64", "128", "256", "512", "1024"],
    "roundup_power2_divisions": ["1", "2", "4", "8", "16"],
    "large_segment_size_mb": ["32", "64", "128", "256", "512"],
    "max_non_split_rounding_mb": ["64", "128", "256"],
}
NPU_KNOBS = {"segment_size_mb": ["32", "64", "128", "256", "512"], "base_addr_aligned_kb": ["0"]}


def weir(command, *arguments):
    run = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    return (json.loads(run.stdout) if run.stdout.startswith(("{", "[")) else None), run.stderr


def combinations(program, base):
    """The rows of all combinations; the settings that the search does not know stay in front."""
    knobs = {**KNOBS, **NPU_KNOBS} if program == "torch_npu" else KNOBS
    known = [part for part in base.split(",") if part.split(":")[0] in knobs]
    rest = [part for part in base.split(",") if part and part not in known]
    for values in itertools.product(*([None, *values] for values in knobs.values())):
        chosen = dict(zip(knobs, values))
        if chosen["max_split_size_mb"] is None and chosen["max_non_split_rounding_mb"] is not None:
            continue  # it has no effect
        of_npu = any(chosen[name] is not None for name in NPU_KNOBS if name in chosen)
        if program == "torch_npu" and (chosen["max_split_size_mb"] if chosen["expandable_segments"] else of_npu):
            continue  # refused together, or without effect
        yield "%s[%s]" % (program, ",".join(rest + ["%s:%s" % pair for pair in chosen.items() if pair[1]]))


def replay(command, trace, rows, growth="balanced"):
    """The results of rows by name. A row that the program refuses stops the others of its batch: it is played alone."""
    found = {}
    for i in range(0, len(rows), BATCH):
        batch = rows[i : i + BATCH]
        answer, why = weir(command, "replay", trace, "-q", "--json", "--no-timing", "--no-audit", "--growth", growth,
                           "--strategy", ",".join(batch))
        if answer is not None:
            found.update({row["strategy"]: row for row in answer["results"]})
        elif len(batch) > 1:
            for row in batch:
                found.update(replay(command, trace, [row], growth))
        elif "too small" not in why and "refuses it together" not in why:
            sys.exit("%s: %s" % (trace, why))
    return found


def least(results):
    served = [row["peak_reserved_bytes"] for row in results if row["oom"] is None]
    return min(served) if served else None


def judge(command, trace):
    advice, why = weir(command, "advise", trace, "--json")
    if advice is None:
        sys.exit("%s: %s" % (trace, why))
    now = advice["cures"][0]
    settings = [cure for cure in advice["cures"] if cure["strategy"].endswith("]")]
    pools = [cure for cure in advice["cures"] if not cure["strategy"].endswith("]")]
    rows = replay(command, trace, list(combinations(advice["program"], now["strategy"].split("[", 1)[1][:-1])))
    pool_rows = {}
    for growth in ("balanced", "grow-first", "wait-first"):
        for name, row in replay(command, trace, ["caching+vm", "size_class+vm", "caching", "size_class"],
                                growth).items():
            pool_rows[name, growth] = row
    good = True
    for cure in advice["cures"]:
        again = replay(command, trace, [cure["strategy"]], cure["growth"] or "balanced")[cure["strategy"]]
        if again["peak_reserved_bytes"] != cure["peak_reserved_bytes"]:
            print("%s: %s: %d bytes are foretold, %d are replayed" % (trace, cure["strategy"],
                  cure["peak_reserved_bytes"], again["peak_reserved_bytes"]))
            good = False
    default = least(replay(command, trace, ["%s[]" % advice["program"]]).values())
    for name, best, found in (
        ("settings", least(rows.values()), min(cure["peak_reserved_bytes"] for cure in settings if cure["served"])),
        ("weir", least(pool_rows.values()), min(cure["peak_reserved_bytes"] for cure in pools if cure["served"])),
    ):
        start = now["peak_reserved_bytes"] if name == "settings" else pool_rows["caching+vm", "balanced"]["peak_reserved_bytes"]
        share = 1.0 if start <= best else (start - found) / (start - best)
        worse = name == "settings" and default is not None and found > default
        good = good and share >= 0.9 and not worse
        print("%-44s %-9s %14d %14d %14d %6.3f%s" % (trace.rsplit("/", 1)[-1], name, start, best, found, share,
                                                    " WORSE THAN THE DEFAULTS" if worse else ""), flush=True)
    return good


def main():
    print("%-44s %-9s %14s %14s %14s %6s" % ("recording", "", "now", "full search", "advice", "share"))
    sys.exit(0 if all([judge(sys.argv[1], trace) for trace in sys.argv[2:]]) else 1)


main()
