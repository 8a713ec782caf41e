"""recordings.py: the table of all recordings in benchmarks/RESULTS.md, those that are not part of weir too: peak reserved
over peak live, device calls and least limits of regions, of virtual memory and of the model of PyTorch's allocator. A part of
measure.py. The figures are the same on every machine.

A recording in two formats is replayed once, and those of a malloc are left out.
"""
import json
import math
import os

MIB = 1 << 20
KINDS = (".wtr.xz", ".pickle.xz", ".json.gz")
STRATEGIES = ["pytorch", "caching", "caching+vm"]
LIMITED = STRATEGIES[:2]
LEAST_LIVE = 32 * MIB  # where less is live, one piece of the device's memory is much
# `caching` should not exceed the model by more than this.
SLACK_BYTES = 2 * MIB
SLACK_SHARE = 0.005


def find(folders):
    """Returns {name: path}: of the formats of a recording the first one."""
    found = {}
    for folder in folders:
        for kind in KINDS:
            for base, _, files in sorted(os.walk(folder)):
                for file in sorted(files):
                    if file.endswith(kind) and os.path.basename(base) != "host":
                        found.setdefault(file[:-len(kind)], os.path.join(base, file))
    return {name: path for name, path in found.items() if not any(name.startswith(other + "_") for other in found)}


def replay(run, weir, path, strategies, *more):
    words = [weir, "replay", path, "--strategy", ",".join(strategies), "--no-timing", "--quiet", "--json", *more]
    told = json.loads(run(words).stdout)
    return told[0] if isinstance(told, list) else told


def is_above(bytes_of):
    return bytes_of["caching"] > bytes_of["pytorch"] * (1 + SLACK_SHARE) + SLACK_BYTES


def figures(run, weir, path):
    """Returns the bytes reserved, the device calls, and the least limits of a recording; None if little is live."""
    told = replay(run, weir, path, STRATEGIES)
    if told["peak_live_bytes"] < LEAST_LIVE:
        return None
    results = {result["strategy"]: result for result in told["results"]}
    swept = replay(run, weir, path, LIMITED, "--no-audit", "--sweep=1.00:1.60:0.01")["sweep"]["results"]
    return {"live": told["peak_live_bytes"],
            "reserved": {name: results[name]["peak_reserved_bytes"] for name in STRATEGIES},
            "calls": {name: results[name]["device_calls"] for name in STRATEGIES},
            "least": {result["strategy"]: result["served_from_bytes"] for result in swept}}


def mean(values):
    values = list(values)
    return "%.4f" % math.exp(sum(map(math.log, values)) / len(values)) if values else ""


def line_of(name, found):
    ratio = lambda value: "%.3f" % (value / found["live"]) if value else "> 1.60"
    return ([name, "{:,.0f}".format(found["live"] / MIB)] + [ratio(found["reserved"][name]) for name in STRATEGIES] +
            ["{:,}".format(found["calls"][name]) for name in STRATEGIES[1:]] +
            [ratio(found["least"].get(name)) for name in LIMITED])


def summary_of(all_found):
    over = lambda name: [found["reserved"][name] / found["live"] for found in all_found]
    return [["geometric mean", ""] + [mean(over(name)) for name in STRATEGIES] + ["", ""] +
            [mean(found["least"][name] / found["live"] for found in all_found if all(found["least"].values()))
             for name in LIMITED],
            ["worst; sum of calls", ""] + ["%.3f" % max(over(name)) for name in STRATEGIES] +
            ["{:,}".format(sum(found["calls"][name] for found in all_found)) for name in STRATEGIES[1:]] + ["", ""]]


def table(run, weir, folders, only):
    """Returns the head, the lines, and sentences below the table; only: the names to replay, None for all."""
    found = {name: figures(run, weir, path) for name, path in sorted(find(folders).items())
             if only is None or name in only}
    found = {name: figure for name, figure in found.items() if figure is not None}
    head = ["recording", "peak live, MiB", "`pytorch`", "`caching`", "`caching+vm`", "calls: `caching`", "`caching+vm`",
            "least limit: `pytorch`", "`caching`"]
    above = [name for name, figure in found.items() if is_above(figure["reserved"])]
    limited = [name for name, figure in found.items() if all(figure["least"].values()) and is_above(figure["least"])]
    lines = [line_of(name, figure) for name, figure in found.items()] + summary_of(list(found.values()))
    return head, lines, ("%d recordings. `caching` exceeds the model by more than %g %% and %d MiB in %s; its least limit in %s." %
                         (len(found), SLACK_SHARE * 100, SLACK_BYTES // MIB, ", ".join(above) or "none",
                          ", ".join(limited) or "none"))
