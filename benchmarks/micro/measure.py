#!/usr/bin/env python3
"""measure.py: measures the tables of speed, growth and memory in benchmarks/RESULTS.md. script/bench builds the
programs and calls it.

  script/bench [OPTION...] [PART...]     parts: table, instructions, growth, host, decay, packing, engines, recordings;
                                         default: the first three

  --rows A,B       these allocators only (micro_peers and bench.c have more than the default ones)
  --cells A,B      these lines of times only, and no other lines of the table; these engines or recordings only
  --rounds N       rounds of each case; a figure is their median (9)
  --seconds S      length of a round (0.05)
  --quick          one short round of the small cases, nothing under valgrind, one seed: shows that everything works
  --programs DIR   folder of the programs; nothing is built
  --write          also puts tables and plots into benchmarks/RESULTS.md, benchmarks/micro/growth.svg,
                   bindings/host/heap/RESULTS.md and bindings/host/heap/decay.svg; then run script/figures
  --plot FILE      also draws the plot of `growth` or `decay` into FILE

All rows of a cell are measured in one process in random order, round by round, so that a change of the machine's speed
affects all rows. Times are processor time. Callgrind counts instructions. For `engines` each process runs three
rounds, and the processes of all rows take turns; all of it takes 15 minutes. Single rows take seconds:

  script/bench --rows caching,tlsf_spin --cells mix1k,infer --rounds 3
"""
import argparse
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import textwrap

import recordings

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "..", "RESULTS.md")
PLOT = os.path.join(HERE, "growth.svg")
HEAP = os.path.join(HERE, "..", "..", "bindings", "host", "heap")

TRACES = [os.path.join(HERE, "..", "traces"),
          os.environ.get("WEIR_TRACES_DIR", os.path.join(HERE, "..", "..", "..", "shared", "traces"))]

BASE = "tlsf_spin"  # the denominator of ratios
POOLS = ["caching", "size_class", "caching_vm"]
ROWS = ["empty_loop"] + POOLS + ["heap", "host_pool", "tlsf", BASE, "jemalloc", "mimalloc", "tcmalloc", "glibc"]
CELLS = ["pair512", "pair1M", "mix1k", "mix100k", "mix1M", "infer", "threads2", "shared2", "pc512", "pc512far",
         "cross512", "cross4M", "plain4M", "use512"]
QUICK_CELLS = ["pair512", "mix1k", "threads2", "pc512", "cross4M", "use512"]
COUNTED = ["pair512", "pair1M", "mix1k", "mix100k", "infer"]

# Panels of growth: title, unit of the axis, points, lines as (label, row, cell of a point).
POWERS = ["10", "100", "1k", "10k", "100k"]
GROWTH = [
    ("live blocks", [10, 100, 1000, 10000, 100000, 1000000],
     [(row, row, ["live" + n for n in POWERS] + ["mix1M"]) for row in ["caching", "size_class", "caching_vm", BASE]]),
    ("streams", [1, 10, 100, 1000, 4000],
     [(label, "caching", [cell + str(n) for n in [1, 10, 100, 1000, 4000]]) for label, cell in
      [("pair on each in turn", "streams"), ("freed on another", "far"), ("entering one", "enter")]]),
    ("regions", [1, 10, 100, 1000, 10000],
     [(label, "caching", [cell + str(n) for n in [1, 10, 100, 1000, 10000]]) for label, cell in
      [("mixed sizes", "regions"), ("growing pair", "grow")]]),
    ("threads", [1, 2, 4, 8],
     [(row, row, ["threads" + str(n) for n in [1, 2, 4, 8]]) for row in
      ["caching", BASE, "jemalloc", "mimalloc", "tcmalloc", "glibc"]]),
]


def fail(text):
    sys.exit("bench: " + text)


class Bench:
    """Runs the programs and remembers the absent rows."""

    def __init__(self, options):
        self.options = options
        self.absent = {}
        # Memory for jemalloc's thread-local data; a program cannot start itself again under valgrind.
        old = os.environ.get("GLIBC_TUNABLES")
        setting = "glibc.rtld.optional_static_tls=16384"
        self.environment = dict(os.environ, GLIBC_TUNABLES=old + ":" + setting if old else setting)

    def path(self, name):
        path = os.path.join(self.options.programs, name)
        if not os.access(path, os.X_OK):
            fail("no program %s; it needs libbenchmark-dev (script/bootstrap bench)" % path)
        return path

    def run(self, words, may_skip=False, **environment):
        environment = dict(self.environment, **environment)
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0 and not (may_skip and done.returncode == 77):
            fail("%s: exit status %d\n%s" % (" ".join(words), done.returncode, done.stderr))
        return done

    def google(self, program, pattern, *more):
        words = [self.path(program), "--benchmark_filter=" + pattern, "--benchmark_format=json", *more]
        text = self.run(words).stdout
        return json.loads(text)["benchmarks"] if text.strip() else []

    def times(self, cell, rows, program="micro_peers"):
        """Returns {row: ns} of one cell."""
        note("%s: %s" % (cell, " ".join(rows)))
        pattern = "^(%s|absent)/(%s)(/|$)" % (re.escape(cell), "|".join(rows))
        found = {}
        for entry in self.google(program, pattern, "--benchmark_repetitions=%d" % self.options.rounds,
                                 "--benchmark_enable_random_interleaving=true",
                                 "--benchmark_report_aggregates_only=%s" % str(self.options.rounds > 1).lower(),
                                 "--benchmark_min_time=%g" % self.options.seconds):
            row = entry["name"][len(cell) + 1:].split("/")[0].replace("_median", "")
            if entry.get("error_occurred"):
                row = entry["name"].split("/")[-1] if entry["name"].startswith("absent/") else row
                self.absent[row] = entry["error_message"]
            elif entry.get("aggregate_name", "median") == "median":
                found[row] = entry["cpu_time"]
        return found

    def instructions(self, pattern, program="micro_peers", per_iteration=1):
        """Returns the instructions of one pair of the case that matches, or None."""
        note("instructions: " + pattern)
        done = self.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                         "--toggle-collect=*measured_*", self.path(program), "--benchmark_filter=" + pattern,
                         "--benchmark_repetitions=1", "--benchmark_report_aggregates_only=false",
                         "--benchmark_format=json", "--pairs=20000"])
        collected = re.search(r"Collected : (\d+)", done.stderr)
        entries = json.loads(done.stdout)["benchmarks"] if done.stdout.strip() else []
        if not collected or not entries or entries[0].get("error_occurred"):
            return None
        return int(collected[1]) / entries[0]["iterations"] / per_iteration

    def packing(self, *words):
        note("memory: " + " ".join(words))
        return [float(word) for word in self.run([self.path("micro_packing"), *words]).stdout.split()]


def note(text):
    print(text, file=sys.stderr, flush=True)


def has_valgrind():
    return any(os.access(os.path.join(folder, "valgrind"), os.X_OK) for folder in os.environ["PATH"].split(":"))


def number(value):
    if value is None:
        return ""
    return "%.1f" % value if value < 20 else "{:,.0f}".format(value)


def markdown(head, lines):
    rows = [head, ["---"] * len(head)] + lines
    return "\n".join("| " + " | ".join(line) + " |" for line in rows) + "\n"


def machine(options, with_rounds=True):
    """Returns a sentence: date, commit, machine and, for times of a pair, the rounds."""
    model = "unknown processor"
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), model)
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, AttributeError):
        system = platform.system()
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short=8", "HEAD"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True).stdout.strip() if shutil.which("git") else ""
    return ("Measured on %s, commit %s: %d cores of %s (%s), %s, `release` preset%s." %
            (datetime.date.today().isoformat(), commit or "unknown", os.cpu_count(), model, platform.machine(), system,
             "; medians of %d rounds of %g s" % (options.rounds, options.seconds) if with_rounds else ""))


# --- the table ---

def beside_base(name, figures, rows):
    """Returns a line: the figures of a cell, each with its ratio to that of the base in parentheses."""
    line = [name]
    for row in rows:
        text = number(figures.get(row))
        if text and figures.get(BASE) and row not in (BASE, "empty_loop"):
            text += " (%.2f)" % (figures[row] / figures[BASE])
        line.append(text)
    return line


def with_head(bench, rows, lines):
    """Returns a table without the rows that are absent, and says why these are."""
    kept = [row for row in rows if row not in bench.absent]
    lines = [[line[0]] + [text for row, text in zip(rows, line[1:]) if row in kept] for line in lines]
    text = markdown([""] + ["`%s`" % row for row in kept], lines)
    for row, why in bench.absent.items():
        text += "\nLeft out: `%s`, %s\n" % (row, why)
    return text


def memory_lines(bench, rows, quick):
    """Returns the memory lines of rows that hand out addresses only."""
    measured = [row for row in rows if row in POOLS + ["tlsf"] or row in bench.options.extra_pools]
    of = lambda function: [function(row) if row in measured else "" for row in rows]
    lines = []
    seeds = [("log1k", 1, 1)] if quick else [("mix1k", 1, 6), ("mix100k", 1, 6), ("infer", 1, 6), ("infer", 1001, 1100)]
    for workload, first, last in seeds:
        figures = {row: bench.packing(row, workload, str(first), str(last)) for row in measured}
        name = "%s, %d %s" % (workload, last - first + 1, "seed" if last == first else "fresh seeds" if first > 1 else "seeds")
        lines.append([name + ": reserved / live, mean (worst)"] +
                     of(lambda row: "%.3f (%.3f)" % tuple(figures[row][:2])))
        lines.append([name + ": device calls per 1,000 allocs after the first pass"] +
                     of(lambda row: "%.2f" % figures[row][2]))
    if not quick:
        lines.append(["host bytes per live block, a million live"] + of(lambda row: "%.0f" % bench.packing(row)[0]))
    return lines


def table(bench):
    options = bench.options
    rows = options.rows or ROWS
    cells = options.cells or (QUICK_CELLS if options.quick else CELLS)
    lines = [beside_base(cell + ", ns", bench.times(cell, rows), rows) for cell in cells]
    if not options.cells:
        lines += memory_lines(bench, rows, options.quick)
    return machine(options) + "\n\n" + with_head(bench, rows, lines)


# --- instructions ---

def instructions(bench):
    """Returns the table of instructions of a pair: the same on a machine that is not quiet."""
    rows = bench.options.rows or ROWS
    lines = [beside_base(cell, {row: bench.instructions("^%s/%s/" % (cell, row)) for row in rows}, rows)
             for cell in bench.options.cells or COUNTED]
    return machine(bench.options, False) + "\n\n" + with_head(bench, rows, lines)


# --- growth ---

def growth(bench):
    """Returns the tables as text, and the panels with their figures for the plot."""
    panels = []
    text = machine(bench.options) + "\n"
    quick_most = 10 if bench.options.quick else float("inf")
    for title, all_points, all_lines in GROWTH:
        points = [point for point in all_points if point <= quick_most]
        lines = [(label, row, cells[:len(points)]) for label, row, cells in all_lines
                 if not bench.options.rows or row in bench.options.rows]
        figures = {}
        for index in range(len(points)):
            for cell in dict.fromkeys(cells[index] for _, _, cells in lines):
                rows = [row for _, row, cells in lines if cells[index] == cell]
                figures.update({(cell, row): ns for row, ns in bench.times(cell, rows).items()})
        values = [(label, [figures.get((cell, row)) for cell in cells]) for label, row, cells in lines]
        values = [(label, line) for label, line in values if any(line)]
        panels.append((title, points, values))
        text += "\n" + markdown([title] + ["{:,}".format(point) for point in points],
                                [[label + ", ns"] + [number(ns) for ns in line] for label, line in values])
    return text, panels


COLOURS = {"caching": "#1b5fa8", "size_class": "#c8501e", "caching_vm": "#2f8f4e", BASE: "#7b4fa3"}  # else MORE_COLOURS
MORE_COLOURS = ["#c8501e", "#8a6d1d", "#2f8f4e", "#b03060", "#5c6670", "#1f9aa8"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 320, 52, 132, 34, 40


def decades(values):
    """Returns the powers of ten below and above all values."""
    low, high = 1, 10
    while low > min(values):
        low /= 10
    while low * 10 <= min(values):
        low *= 10
    high = low * 10
    while high < max(values):
        high *= 10
    return low, high


def plot_panel(panel, left, top):
    import math
    title, points, lines = panel
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    low, high = decades([ns for _, line in lines for ns in line if ns])
    span = math.log(points[-1] / points[0]) or 1

    def x(point):
        return left + LEFT + inner_width * math.log(point / points[0]) / span

    def y(ns):
        return top + TOP + inner_height * (1 - math.log(ns / low) / math.log(high / low))

    out = ['<text class="title" x="%.1f" y="%.1f">%s</text>' % (left + LEFT, top + 20, "ns, by " + title)]
    tick = low
    while tick <= high * 1.01:
        out.append('<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>' %
                   (left + LEFT, left + LEFT + inner_width, y(tick), y(tick)))
        out.append('<text class="tick" text-anchor="end" x="%.1f" y="%.1f">%s</text>' %
                   (left + LEFT - 6, y(tick) + 4, "{:,.0f}".format(tick) if tick >= 1 else "%g" % tick))
        tick *= 10
    for point in points:
        label = "{:,}".format(point) if point < 1000000 else "1 M"
        out.append('<text class="tick" text-anchor="middle" x="%.1f" y="%.1f">%s</text>' %
                   (x(point), top + HEIGHT - BOTTOM + 18, label))
    ends = []
    for (label, line), other in zip(lines, MORE_COLOURS):
        colour = COLOURS.get(label, other)
        known = [(x(point), y(ns), ns, point) for point, ns in zip(points, line) if ns]
        out.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' %
                   (colour, " ".join("%.1f,%.1f" % place[:2] for place in known)))
        for px, py, ns, point in known:
            out.append('<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s, %s: %s ns</title></circle>' %
                       (px, py, colour, label, "{:,}".format(point), number(ns)))
        ends.append([known[-1][1], label, colour])
    ends.sort()
    for before, after in zip(ends, ends[1:]):  # moves the labels at the ends of the lines apart
        after[0] = max(after[0], before[0] + 14)
    overhang = max(0, ends[-1][0] - (top + HEIGHT - BOTTOM))
    for place, label, colour in ends:
        out.append('<text class="label" fill="%s" x="%.1f" y="%.1f">%s</text>' %
                   (colour, left + LEFT + inner_width + 8, place + 4 - overhang, label))
    return out


def plot(panels):
    """Returns an SVG with two panels per line and logarithmic axes."""
    panels = [panel for panel in panels if panel[2]]
    high = HEIGHT * ((len(panels) + 1) // 2)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">' %
           (2 * WIDTH, high, 2 * WIDTH, high),
           "<title>Processor ns of a pair of alloc and free as blocks, streams, regions and threads grow</title>",
           "<style>text{font:12px sans-serif}.title{font-weight:bold;fill:#222}.tick{fill:#555}.label{font-weight:600}"
           ".grid{stroke:#ddd}</style>",
           '<rect width="100%" height="100%" fill="#fff"/>']
    for index, panel in enumerate(panels):
        out += plot_panel(panel, WIDTH * (index % 2), HEIGHT * (index // 2))
    return "\n".join(out + ["</svg>", ""])


# --- pinned host memory ---

def host(bench):
    sizes = ["256"] if bench.options.quick else ["256", "4K", "64K", "1M", "16M"]
    rows = ["empty_loop", "weir", "weir_jemalloc", "weir_heap", "glibc", "jemalloc", "mimalloc", "tcmalloc", "pin_each"]
    rows = bench.options.rows or rows
    cells = [(workload + "/" + size, 16 if workload == "batch16" else 1)
             for workload in ["pair", "two", "batch16"] for size in sizes]
    lines = []
    for cell, blocks in cells:
        times = bench.times(cell, rows, "micro_host")
        lines.append([cell + ", ns"] + [number(times[row] / blocks if row in times else None) for row in rows])
    if has_valgrind() and not bench.options.quick:
        for size in ["256", "64K"]:
            lines.append(["pair/%s, instructions" % size] +
                         [number(bench.instructions("^pair/%s/%s/" % (size, row), "micro_host")) for row in rows])
    text = machine(bench.options) + "\n\n" + markdown([""] + ["`%s`" % row for row in rows], lines)
    return text if bench.options.quick else text + "\n" + bench.run([bench.path("micro_host_footprint")]).stdout


# --- idle memory of a heap ---

def decay(bench):
    """Returns the table of resident sizes as text, and its lines: (name, MiB at each time)."""
    text = bench.run([bench.path("micro_heap_decay")]).stdout
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines()]
    times = [float(time) for time in cells[0][1:]]
    return text, times, [(row[0], [float(mib) for mib in row[1:]]) for row in cells[2:]]


DRAWN = {"heap": "#1b5fa8", "heap, 200 ms": "#6aa5dd", "heap, never": "#9aa4ae", "glibc": "#5c6670",
         "jemalloc": "#c8501e", "mimalloc": "#2f8f4e", "tcmalloc": "#7b4fa3"}


def plot_decay(times, lines):
    """Returns an SVG of the resident size over time."""
    wide, high, left, right, top, bottom = 640, 320, 52, 190, 34, 40
    most = 50 * -(-max(max(line) for _, line in lines) // 50)

    def x(time):
        return left + (wide - left - right) * time / times[-1]

    def y(mib):
        return top + (high - top - bottom) * (1 - max(mib, 0) / most)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">' %
           (wide, high, wide, high),
           "<title>Resident size after a burst of 256 MiB</title>",
           "<style>text{font:12px sans-serif}.title{font-weight:bold;fill:#222}.tick{fill:#555}.label{font-weight:600}"
           ".grid{stroke:#ddd}</style>", '<rect width="100%" height="100%" fill="#fff"/>',
           '<text class="title" x="%d" y="20">MiB resident, by seconds after 256 MiB were freed</text>' % left]
    for mib in range(0, int(most) + 1, 50):
        out.append('<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>' % (left, x(times[-1]), y(mib), y(mib)))
        out.append('<text class="tick" text-anchor="end" x="%d" y="%.1f">%d</text>' % (left - 6, y(mib) + 4, mib))
    out += ['<text class="tick" text-anchor="middle" x="%.1f" y="%d">%g</text>' % (x(time), high - bottom + 18, time)
            for time in times[::2]]
    ends = []
    for name, line in lines:
        if name in DRAWN:
            places = " ".join("%.1f,%.1f" % (x(time), y(mib)) for time, mib in zip(times, line))
            out.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"><title>%s</title></polyline>' %
                       (DRAWN[name], places, name))
            ends.append([y(line[-1]), name])
    ends.sort(reverse=True)
    for below, above in zip(ends, ends[1:]):
        above[0] = min(above[0], below[0] - 14)
    out += ['<text class="label" fill="%s" x="%.1f" y="%.1f">%s</text>' %
            (DRAWN[name], x(times[-1]) + 8, place + 4, name) for place, name in ends]
    return "\n".join(out + ["</svg>", ""])


# --- engines ---

# Workloads: name, text, program and arguments.
ENGINES = [
    ("torch_inference", "libtorch, inference", ["engine_torch", "inference"]),
    ("torch_training", "libtorch, training", ["engine_torch", "training"]),
    ("torch_decoding", "libtorch, decoding with growing caches", ["engine_torch", "decoding"]),
    ("torch_threads", "libtorch, inference by four threads", ["engine_torch", "threads"]),
    ("onnxruntime_bert", "ONNX Runtime, encoder", ["engine_onnxruntime", "bert", "--inferences", "24"]),
    ("onnxruntime_mobilenet", "ONNX Runtime, convolutional network", ["engine_onnxruntime", "mobilenet"]),
    ("onnxruntime_gpt", "ONNX Runtime, decoder", ["engine_onnxruntime", "gpt", "--inferences", "240"]),
    ("xnnpack", "XNNPACK, convolutional network", ["engine_xnnpack"]),
    ("ggml", "ggml, decoder", ["engine_ggml"]),
]
PRELOADED = {"jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
ALLOCATORS = ["heap", "glibc"] + list(PRELOADED) + ["arena"]


def engine_words(bench, row, words):
    words = [bench.path(words[0]), *words[1:], "--alone", "weir" if row == "heap" else "own"]
    return words + (["--no-arena"] if words[0].endswith("onnxruntime") and row in ["glibc", *PRELOADED] else [])


def run_engine(bench, row, words, rounds):
    """Returns the figures of one process as a dict."""
    preload = {"LD_PRELOAD": PRELOADED[row]} if row in PRELOADED else {}
    text = bench.run([*engine_words(bench, row, words), "--rounds", str(rounds)], **preload).stdout
    found = re.search(r"outputs +(?P<outputs>\w+)\n +malloc +(?P<malloc>.*)\n.* (?P<start>[\d.]+) MiB at first, "
                      r"(?P<peak>[\d.]+) at the peak, (?P<end>[\d.]+) at the end\n.* (?P<first>\d+) in opening.*\n"
                      r".* (?P<later>\d+) a round\n.* (?P<median>[\d.]+) ms a round, least (?P<least>[\d.]+)", text)
    if not found or PRELOADED.get(row, "") not in found["malloc"]:
        fail("%s, %s: no figures, or another malloc:\n%s" % (" ".join(words), row, text))
    return found.groupdict()


def engine_lines(bench, rows, text, words):
    """Returns the lines of one workload. The processes of all rows take turns."""
    rounds = min(3, bench.options.rounds)  # of a process
    found = {row: [] for row in rows}
    for _ in range(bench.options.rounds // rounds):
        for row in rows:
            note("%s: %s" % (text, row))
            found[row].append(run_engine(bench, row, words, rounds))
    if len({run["outputs"] for runs in found.values() for run in runs}) != 1:
        fail("%s: the outputs differ: %s" % (text, found))
    middle = lambda row, name: statistics.median(float(run[name]) for run in found[row])
    start = min(float(run["start"]) for runs in found.values() for run in runs)
    of = lambda function: [function(row) if row in rows else "" for row in ALLOCATORS]
    return [
        [text + ": CPU ms"] + of(lambda row: "%s (%s)" % (number(min(float(run["least"]) for run in found[row])),
                                                          number(middle(row, "median")))),
        ["peak MiB"] + of(lambda row: "%.1f" % (middle(row, "peak") - start)),
        ["MiB at the end"] + of(lambda row: "%.1f" % (middle(row, "end") - start)),
        ["faults, first; later"] + of(lambda row: "{:,.0f}; {:,.0f}".format(middle(row, "first"), middle(row, "later"))),
    ]


def is_installed(bench, words):
    """Returns False where an engine was absent when its program was built, or is absent now (exit status 77)."""
    return (os.access(os.path.join(bench.options.programs, words[0]), os.X_OK) and
            bench.run(engine_words(bench, "heap", words) + ["--rounds", "0"], may_skip=True).returncode == 0)


def engines(bench):
    # The loader complains about a library that is absent, and the program runs without it.
    absent = [row for row in PRELOADED if bench.run(["true"], LD_PRELOAD=PRELOADED[row]).stderr]
    rows = [row for row in bench.options.rows or ALLOCATORS if row not in absent]
    lines = []
    for cell, text, words in ENGINES:
        if cell not in (bench.options.cells or [cell]):
            continue
        if not is_installed(bench, words):
            absent.append(cell)
            continue
        own = [row for row in rows if row != "arena" or words[0] == "engine_onnxruntime"]
        lines += engine_lines(bench, own, text, words)
    text = markdown([""] + ALLOCATORS, lines)
    return text + ("\nLeft out, because they are not installed: %s\n" % ", ".join(absent) if absent else "")


# --- main ---

def rewrite(name, text, page=RESULTS):
    """Replaces the text between the two comments of that name in the page."""
    with open(page, encoding="utf-8") as file:
        old = file.read()
    begin, end = "<!-- %s: written by script/bench -->\n" % name, "<!-- end of %s -->" % name
    if old.count(begin) != 1 or old.count(end) != 1:
        fail("%s has no place for %s" % (page, name))
    head, rest = old.split(begin)
    with open(page, "w", encoding="utf-8") as file:
        file.write(head + begin + text + end + rest.split(end)[1])


def write_file(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def options_of(words):
    parser = argparse.ArgumentParser(prog="script/bench", usage=__doc__, add_help=False)
    names = lambda text: text.split(",")
    parser.add_argument("--rows", type=names)
    parser.add_argument("--cells", type=names)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--programs", default="build/release/bin")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--plot")
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args(words)
    options.parts = options.parts or ["table", "instructions", "growth"]
    options.rounds = options.rounds or (1 if options.quick else 9)
    options.seconds = options.seconds or (0.001 if options.quick else 0.05)
    options.extra_pools = ["caching_no_front_cache", "caching_single_threaded", "pytorch_model", "direct_model"]
    if set(options.parts) - {"table", "instructions", "growth", "host", "decay", "packing", "engines", "recordings"}:
        parser.error("no such part")
    if options.write and (options.quick or options.rows or options.cells):
        parser.error("--write needs all rows and cells, and no --quick")
    return options


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return
    options = options_of(sys.argv[1:])
    bench = Bench(options)
    if "table" in options.parts:
        text = table(bench)
        print(text)
        if options.write:
            rewrite("table", text)
    if "instructions" in options.parts and not options.quick:
        if not has_valgrind():
            note("no valgrind: instructions are left out")
        else:
            text = instructions(bench)
            print(text)
            if options.write:
                rewrite("instructions", text)
    if "growth" in options.parts:
        text, panels = growth(bench)
        print(text)
        if options.write:
            rewrite("growth", text)
        for path in ([PLOT] if options.write else []) + ([options.plot] if options.plot else []):
            write_file(path, plot(panels))
    if "host" in options.parts:
        print(host(bench))
    if "decay" in options.parts:
        text, times, lines = decay(bench)
        threads = bench.run([bench.path("micro_heap_decay"), "threads"]).stdout
        print(text + "\n" + threads)
        if options.write:
            rewrite("decay", machine(options, False) + "\n\n" + text, os.path.join(HEAP, "RESULTS.md"))
            rewrite("threads", machine(options, False) + "\n\n" + threads, os.path.join(HEAP, "RESULTS.md"))
        for path in ([os.path.join(HEAP, "decay.svg")] if options.write else []) + ([options.plot] if options.plot else []):
            write_file(path, plot_decay(times, lines))
    if "packing" in options.parts:
        text = bench.run([bench.path("micro_heap_packing")]).stdout
        print(text)
        if options.write:
            rewrite("packing", text, os.path.join(HEAP, "RESULTS.md"))
    if "engines" in options.parts:
        text = engines(bench)
        print(text)
        if options.write:
            rewrite("engines", machine(options, False) + "\n\n" + text, os.path.join(HEAP, "RESULTS.md"))
    if "recordings" in options.parts:
        head, lines, below = recordings.table(bench.run, bench.path("weir"), TRACES, options.cells)
        text = (machine(options, False) + "\n\n" + markdown(head, lines) + "\n" +
                textwrap.fill(below, 128, break_on_hyphens=False) + "\n")
        print(text)
        if options.write:
            rewrite("recordings", text)


main()
