"""_command.py: the `weir` command that this package carries: replay, run, and the command itself for shells."""
import dataclasses
import json
import os
import subprocess
import sys
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Union

from ._c import PREFIX, Error, InvalidError

COMMAND = os.path.join(PREFIX, "bin", "weir")

Path = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Result:
    """A strategy's figures for a trace. `all` has every member of replay's JSON (share/weir/replay.schema.json)."""
    strategy: str
    peak_live_bytes: int
    peak_reserved_bytes: int
    reserved_over_live: Optional[float]
    device_calls: Optional[int]
    hazards: Optional[int]
    oom: Optional[Dict[str, Any]]
    all: Dict[str, Any] = dataclasses.field(repr=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Replay:
    """A trace that was replayed, one device of it. `all` has every member of replay's JSON."""
    trace: str
    source: Optional[str]
    events: int
    peak_live_bytes: int
    results: List[Result]
    all: Dict[str, Any] = dataclasses.field(repr=False, compare=False)

    def __getitem__(self, strategy: str) -> Result:
        for result in self.results:
            if result.strategy == strategy:
                return result
        raise KeyError(strategy)


def _result(found: Dict[str, Any]) -> Result:
    return Result(strategy=found["strategy"], peak_live_bytes=found["peak_live_bytes"],
                  peak_reserved_bytes=found["peak_reserved_bytes"], reserved_over_live=found.get("peak_reserved_over_live"),
                  device_calls=found.get("device_calls"), hazards=found.get("hazards"), oom=found.get("oom"), all=found)


def _replay(found: Dict[str, Any]) -> Replay:
    return Replay(trace=found["trace"], source=found.get("source"), events=found["events"],
                  peak_live_bytes=found["peak_live_bytes"], results=[_result(result) for result in found["results"]], all=found)


def replay(*traces: Path, strategies: Sequence[str] = (), options: Sequence[str] = ()) -> List[Replay]:
    """Replays traces against strategies on a simulated device.

        for result in weir.replay("snapshot.pickle", strategies=["caching", "pytorch"])[0].results:
            print(result.strategy, result.peak_reserved_bytes)

    traces       .wtr files, memory snapshots of PyTorch, profiles, CSV, or names of bundled recordings
    strategies   as for `weir replay --strategy`; none: the command's own choice
    options      further options of `weir replay`, such as ["--limit", "8GiB"]

    Raises Error with the command's sentence if a trace cannot be read."""
    if not traces:
        raise InvalidError("no trace is named")
    arguments = [COMMAND, "replay", "--json", *options]
    if strategies:
        arguments += ["--strategy", ",".join(strategies)]
    done = subprocess.run([*arguments, "--", *(os.fspath(trace) for trace in traces)], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False)
    if done.returncode not in (0, 1):  # 1: hazards were found
        raise Error(done.stderr.decode(errors="replace").strip() or f"weir replay ended with {done.returncode}")
    found = json.loads(done.stdout)
    return [_replay(one) for one in (found if isinstance(found, list) else [found])]


def frame(replays: Sequence[Replay]):
    """Returns a pandas data frame with a row for each trace and strategy. Needs pandas."""
    import pandas  # pylint: disable=import-outside-toplevel

    rows = [{"trace": one.trace, **{name: value for name, value in result.all.items() if not isinstance(value, (dict, list))}}
            for one in replays for result in one.results]
    return pandas.DataFrame(rows)


def run(program: Sequence[Path], *, limit_bytes: int = 0, report: Optional[Path] = None, quiet: bool = False,
        **others: Any) -> "subprocess.CompletedProcess[Any]":
    """Runs a program of any language with a weir heap in the place of its malloc: `weir run`.

        weir.run([sys.executable, "infer.py"], limit_bytes=2 << 30)

    The report of who held the memory goes to standard error, or with `report` to that file. `others` are those of
    subprocess.run, which gives the result."""
    if isinstance(program, (str, bytes)) or not program:
        raise InvalidError("program is a list: its name and its arguments")
    arguments = [COMMAND, "run"]
    if limit_bytes:
        arguments += ["--limit", str(int(limit_bytes))]
    if report is not None:
        arguments += ["--report", os.fspath(report)]
    if quiet:
        arguments.append("--quiet")
    others.setdefault("check", False)
    return subprocess.run([*arguments, "--", *(os.fspath(word) for word in program)], **others)  # pylint: disable=W1510


def main() -> NoReturn:
    """The program `weir` that pip installs: becomes the command."""
    os.execv(COMMAND, ["weir", *sys.argv[1:]])
