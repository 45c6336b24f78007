"""Measures contenders against each other: in rotation, each in its own process and environment, medians with quartiles.

All contenders of a row are started one after the other and warmed up; then they play in turns: A B C A B C ... Only one
plays at a time, the others wait, so each has all cores, and a slow minute of the machine is slow for all. The first
round of a turn is left out, because it starts with cold caches. Waiting is not always idle: Ray, for one, keeps looking
around. In sections that are marked so, a contender is therefore started anew for each turn and no other is alive.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rows import Row

HERE = Path(__file__).resolve().parent
RESULTS = HERE / ".results"
IN_OUR_ENVIRONMENT = ("ours", "plain", "matmul")
WARMUP = 3
DISTURBED = 0.1  # share of the machine that other programs may use while the contenders wait
NOT_INSTALLED = "not installed"
WITH_CHANGES = " with changes"
PATIENCE = 900.0  # seconds without an answer, after which a contender is given up; compilation takes long


@dataclass(frozen=True)
class Contender:
    """Who plays what: a script of peers/ with its options, a row, and how many rounds make a turn."""

    label: str
    row: Row
    peer: str
    options: tuple[str, ...] = ()
    rounds: int = 6


@dataclass(frozen=True)
class Claim:
    """A ratio of two times with its target: time of `of` / smallest time of `than`."""

    key: str
    text: str
    of: str
    than: tuple[str, ...]
    target: float | None
    at_most: bool = False


@dataclass(frozen=True)
class Section:
    """One row: who plays it and what should come out."""

    row: Row
    contenders: tuple[Contender, ...]
    claims: tuple[Claim, ...]
    turns: int = 5
    name: str = ""
    """If it is not the row's."""
    alone: bool = False
    """Each contender is started anew for its turn."""
    busy: int = 0
    """Processes that only take computing time, all the while."""


@dataclass
class Timing:
    """Seconds a round of one contender, by turn; or why there are none."""

    label: str
    turns: list[list[float]] = field(default_factory=list)
    missing: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> list[float]:
        return [seconds for turn in self.turns for seconds in turn]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


# --- playing ---------------------------------------------------------------------------------------------------------


class Missing(Exception):
    """A contender cannot play; the message says why."""


def python_of(peer: str) -> str:
    """The interpreter a peer runs in."""
    if peer in IN_OUR_ENVIRONMENT:
        return sys.executable
    environment = HERE / ".envs" / peer
    if not (environment / ".installed").exists():
        raise Missing(NOT_INSTALLED)
    return str(environment / "bin" / "python")


def environment_of(python: str) -> dict[str, str]:
    """The same for all: no settings of threads, so that each uses the cores as it does by default."""
    left_out = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH", "VIRTUAL_ENV"}
    own = {name: value for name, value in os.environ.items() if name not in left_out}
    return own | {"PATH": f"{Path(python).parent}{os.pathsep}{own.get('PATH', '')}", "PYTHONWARNINGS": "ignore"}


class Player:
    """A running contender. It answers when it has played its turn, and reports at the end."""

    def __init__(self, command: Sequence[str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (lives as long as the process)
        self.process = subprocess.Popen(
            command,
            cwd=HERE,
            env=environment_of(command[0]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE):
                raise Missing(f"no answer in {PATIENCE:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Missing(self.last_words())
        return json.loads(line)

    def go(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Missing(self.last_words()) from None

    def last_words(self) -> str:
        self.process.wait()
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
        last = lines[-1] if lines else f"ended with code {self.process.returncode}"
        return last.replace(f"{HERE.parent}{os.sep}", "")[:100]  # goes into a page; where this directory lies does not

    def end(self) -> None:
        """Let it finish what it has left (Flower takes its actors down); after that, end its processes."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.errors.close()


def busy_share(seconds: float = 0.3) -> float:
    """The share of the machine that is at work while all contenders wait; 0 where the system does not say."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0

    def ticks() -> tuple[int, int]:
        user, nice, system, idle, waiting, *rest = map(int, stat.read_text().splitlines()[0].split()[1:])
        return user + nice + system + sum(rest[:3]), idle + waiting

    busy, idle = ticks()
    time.sleep(seconds)
    busy_later, idle_later = ticks()
    return (busy_later - busy) / max(1, busy_later - busy + idle_later - idle)


def command_of(contender: Contender, warmup: int, turns: int) -> list[str]:
    rounds = warmup + turns * contender.rounds
    command = [python_of(contender.peer), "-m", f"peers.{contender.peer}", contender.row.name, str(rounds)]
    return [*command, "--warmup", str(warmup), "--turns", str(turns), *contender.options]


@contextlib.contextmanager
def busy_processes(number: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def compare(
    contenders: Sequence[Contender], turns: int, warmup: int = WARMUP, disturbed_by_us: bool = False
) -> dict[str, Timing]:
    """Let the contenders play in rotation; what each of them took, by label. Warns when others are at work."""
    timings = {contender.label: Timing(contender.label) for contender in contenders}
    with contextlib.ExitStack() as stack:
        players = dict[str, Player]()

        @contextlib.contextmanager
        def watching(label: str) -> Iterator[None]:
            try:
                yield
            except Missing as reason:
                timings[label].missing = str(reason)
                players.pop(label, None)

        for contender in contenders:
            say(f"  warm-up: {contender.label}")
            with watching(contender.label):
                player = Player(command_of(contender, warmup, turns))
                stack.callback(player.end)
                player.answer()
                players[contender.label] = player
        reports, disturbed = dict[str, dict[str, Any]](), list[float]()
        for turn in range(turns):
            say(f"  turn {turn + 1} of {turns}")
            disturbed.append(busy_share())
            for label, player in list(players.items()):
                with watching(label):
                    player.go()
                    reports[label] = player.answer()
    say("")
    if max(disturbed) > DISTURBED and not disturbed_by_us:
        print(f"Warning: other programs used up to {max(disturbed):.0%} of the machine; do not trust these times.")
    for contender in contenders:
        timing = timings[contender.label]
        if timing.missing is None:
            fill(timing, reports[contender.label], contender.rounds, warmup)
    return timings


def compare_alone(contenders: Sequence[Contender], turns: int) -> dict[str, Timing]:
    """Let the contenders play in rotation, each started anew for each of its turns."""
    timings = dict[str, Timing]()
    for _ in range(turns):
        for contender in contenders:
            timing = compare([contender], turns=1)[contender.label]
            before = timings.get(contender.label, Timing(contender.label))
            missing = before.missing or timing.missing
            timings[contender.label] = replace(timing, turns=before.turns + timing.turns, missing=missing)
    return timings


def fill(timing: Timing, report: dict[str, Any], per_turn: int, warmup: int) -> None:
    seconds = report.pop("seconds")[warmup:]
    cold = 1 if per_turn > 2 else 0
    timing.turns = [seconds[start + cold : start + per_turn] for start in range(0, len(seconds), per_turn)]
    timing.versions = report.pop("versions")
    timing.report = report


def play_alone(row: Row, peer: str, rounds: int, options: Sequence[str] = ()) -> dict[str, Any]:
    """The report of a run without turns."""
    player = Player([python_of(peer), "-m", f"peers.{peer}", row.name, str(rounds), *options])
    try:
        return player.answer()
    finally:
        player.end()


# --- what comes out --------------------------------------------------------------------------------------------------


def judged(
    key: str, text: str, value: float | None, target: float | None, *, at_most: bool, unit: str = "x"
) -> dict[str, Any]:
    """A measured number beside its target."""
    reached = None
    if value is not None and target is not None:
        reached = value <= target if at_most else value >= target
    return {
        "id": key, "text": text, "value": value, "unit": unit, "target": target, "at_most": at_most, "reached": reached,
    }  # fmt: skip


def settle(place: str, claim: Claim, timings: Mapping[str, Timing]) -> dict[str, Any]:
    """The ratio of medians turn by turn, so that neighbours in time are compared: its median and quartiles."""
    key = f"{place}/{claim.key}"
    lacking = next((timings[label] for label in (claim.of, *claim.than) if timings[label].missing is not None), None)
    if lacking is not None:
        missing = f"{lacking.label}: {lacking.missing}"
        return {**judged(key, claim.text, None, claim.target, at_most=claim.at_most), "missing": missing}
    than = min(claim.than, key=lambda label: timings[label].median)
    of, best = timings[claim.of], timings[than]
    by_turn = [statistics.median(a) / statistics.median(b) for a, b in zip(of.turns, best.turns, strict=True)]
    low, high = quartiles(by_turn)
    settled = judged(key, claim.text, statistics.median(by_turn), claim.target, at_most=claim.at_most)
    return {**settled, "low": low, "high": high}


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def summary(timing: Timing) -> dict[str, Any]:
    if timing.missing is not None:
        return {"label": timing.label, "missing": timing.missing}
    low, high = quartiles(timing.seconds)
    return {
        "label": timing.label, "median": timing.median, "low": low, "high": high, "rounds": len(timing.seconds),
        "report": timing.report,
    }  # fmt: skip


def seconds_text(seconds: float) -> str:
    """Three or four digits."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.{0 if seconds >= 0.1 else 1 if seconds >= 0.01 else 2}f} ms"


def target_text(claim: Mapping[str, Any]) -> str:
    if claim["target"] is None:
        return "-"
    unit = "x" if claim["unit"] == "x" else f" {claim['unit']}"
    return f"{'<=' if claim['at_most'] else '>='} {claim['target']:g}{unit}"


def value_text(claim: Mapping[str, Any]) -> str:
    if claim["value"] is None:
        return f"not measured ({claim['missing']})"
    unit = "x" if claim["unit"] == "x" else f" {claim['unit']}"
    spread = f" ({claim['low']:.2f} to {claim['high']:.2f})" if "low" in claim else ""
    return f"{claim['value']:.2f}{unit}{spread}"


def reached_text(claim: Mapping[str, Any]) -> str:
    return "-" if claim["reached"] is None else "yes" if claim["reached"] else "no"


def print_section(section: Mapping[str, Any]) -> None:
    print(f"\n{section['title']}")
    width = max((len(entry["label"]) for entry in section["times"]), default=0)
    for entry in section["times"]:
        if "missing" in entry:
            print(f"  {entry['label']:{width}}  {entry['missing']}")
        else:
            spread = f"({seconds_text(entry['low'])} to {seconds_text(entry['high'])}, {entry['rounds']} values)"
            print(f"  {entry['label']:{width}}  {seconds_text(entry['median']):>9}  {spread}")
    width = max((len(claim["text"]) for claim in section["claims"]), default=0)
    for claim in section["claims"]:
        texts = f"target {target_text(claim):9} reached: {reached_text(claim)}" if claim["target"] is not None else ""
        print(f"  {claim['text']:{width}}  {value_text(claim):28} {texts}")


def say(text: str) -> None:
    """Progress on standard error, one line that is overwritten where that is possible."""
    overwrite = sys.stderr.isatty()
    print(f"\r{text:100}" if overwrite else text, end="" if overwrite else "\n", file=sys.stderr, flush=True)


# --- scripts ---------------------------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": cpu, "cores": str(cores), "system": platform.system(), "python": platform.python_version()}


def commit() -> str:
    """The commit of the working tree, and whether the tree differs from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=HERE.parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    written = [f":!benchmarks/{name}" for name in ("RESULTS.md", "shortfalls.md")]  # after a run, about it
    try:
        return git("rev-parse", "--short", "HEAD") + (WITH_CHANGES if git("status", "--short", ".", *written) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def measured(section: Section, *, quick: bool) -> dict[str, Any]:
    """Play a section; quick: shorter and fewer turns, for a first look."""
    contenders = section.contenders
    turns = section.turns
    if quick:
        turns = 2
        contenders = tuple(replace(each, rounds=max(2, each.rounds // 2)) for each in contenders)
    name = section.name or section.row.name
    say(f"{name}: {section.row}")
    with busy_processes(section.busy):
        if section.alone:
            timings = compare_alone(contenders, turns)
        else:
            timings = compare(contenders, turns, disturbed_by_us=section.busy > 0)
    conditions = ["only one contender alive at a time"] if section.alone else []
    conditions += [f"beside {section.busy} busy process"] if section.busy else []
    versions = {name: version for timing in timings.values() for name, version in timing.versions.items()}
    return {
        "row": name,
        "title": "; ".join([str(section.row), *conditions]),
        "times": [summary(timing) for timing in timings.values()],
        "claims": [settle(name, claim, timings) for claim in section.claims],
        "versions": {name: version for name, version in versions.items() if name != "threads"},
    }


def quick_from_command_line(description: str | None) -> bool:
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quick", action="store_true", help="fewer and shorter turns, for a first look")
    return arguments.parse_args().quick


def publish(name: str, sections: list[dict[str, Any]], *, quick: bool, **more: Any) -> dict[str, Any]:
    """Print the sections and keep them in .results/."""
    result = {
        "name": name, "date": datetime.date.today().isoformat(), "quick": quick, "machine": machine(),
        "commit": commit(), "sections": sections, **more,
    }  # fmt: skip
    for section in sections:
        print_section(section)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def script(name: str, description: str | None, sections: Callable[[], Sequence[Section]]) -> dict[str, Any]:
    """The main function of a script that only plays rows."""
    quick = quick_from_command_line(description)
    return publish(name, [measured(section, quick=quick) for section in sections()], quick=quick)


# --- who plays -------------------------------------------------------------------------------------------------------

DEFAULT = "driftless default"
ONE = "driftless, 1 process"
WORKERS = "driftless, 2 processes"
BLOCK = "driftless, 1 process, block"
SINGLE = "driftless, 1 process, single"
PLAIN = "plain loop"
TUNED = "plain loop, tuned"
FLOWER = "Flower"
PFL = "pfl"
FEDLAB = "FedLab"
FLUKE = "fluke"
MATMUL = "matrix products"

PLAYERS = {
    DEFAULT: ("ours", ()),
    ONE: ("ours", ("--workers", "1")),
    WORKERS: ("ours", ("--workers", "2")),
    BLOCK: ("ours", ("--workers", "1", "--engine", "block")),
    SINGLE: ("ours", ("--workers", "1", "--engine", "single")),
    PLAIN: ("plain", ()),
    TUNED: ("plain", ("--tuned",)),
    FLOWER: ("flower", ()),
    PFL: ("pfl", ()),
    FEDLAB: ("fedlab", ()),
    FLUKE: ("fluke", ()),
    MATMUL: ("matmul", ()),
}


def contenders(row: Row, rounds: Mapping[str, int]) -> tuple[Contender, ...]:
    """From the rounds a turn of each."""
    return tuple(Contender(label, row, *PLAYERS[label], rounds=count) for label, count in rounds.items())


def auto_claims() -> tuple[Claim, ...]:
    """The rules of `engine="auto"` may not choose the slower engine, nor processes that cost more than they bring."""
    return (
        Claim("auto", "auto / the faster of block and single", ONE, (BLOCK, SINGLE), 1.05, at_most=True),
        Claim("auto-workers", "auto / the faster of 1 and 2 processes", DEFAULT, (ONE, WORKERS), 1.05, at_most=True),
    )
