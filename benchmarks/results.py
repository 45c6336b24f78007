"""Runs the benchmarks and writes RESULTS.md: times, ratios, targets, and what was not reached.

    python benchmarks/results.py                           run all scripts, then write
    python benchmarks/results.py [--quick] [names ...]     run those named, or all of them shortly
    python benchmarks/results.py --write                   only write, from what was measured before

RESULTS.md is only written from full runs of all scripts on one commit without changes. Why a target was not reached
stands in shortfalls.md, under a heading with the ratio's id.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from measure import (
    DEFAULT,
    FEDLAB,
    FLOWER,
    FLUKE,
    HERE,
    MATMUL,
    ONE,
    PFL,
    PLAIN,
    RESULTS,
    TUNED,
    WITH_CHANGES,
    WORKERS,
    commit,
    reached_text,
    seconds_text,
    target_text,
    value_text,
)

NAMES = ("mlp", "logistic", "cnn", "recurrent", "corrected", "outside", "startup", "population", "scale")
ROW_SCRIPTS = ("mlp", "logistic", "cnn", "recurrent")
COLUMNS = (ONE, WORKERS, DEFAULT, FLOWER, PFL, PLAIN, TUNED, MATMUL, FEDLAB, FLUKE)
SHORTFALLS = HERE / "shortfalls.md"
PAGE = HERE / "RESULTS.md"

Result = dict[str, Any]


def run(names: Iterable[str], quick: bool) -> list[str]:
    """Each script in its own process; the names of those that failed."""
    failed = list[str]()
    for name in names:
        print(f"== {name}", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), *(["--quick"] if quick else [])]
        if subprocess.run(command).returncode != 0:
            failed.append(name)
    return failed


def read(name: str) -> Result | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def explanations() -> dict[str, str]:
    """shortfalls.md as {id of a ratio: text}; headings are lines '## id'."""
    if not SHORTFALLS.exists():
        return {}
    parts = re.split(r"^## +(\S+) *$", SHORTFALLS.read_text(), flags=re.MULTILINE)
    return {key: text.strip() for key, text in zip(parts[1::2], parts[2::2], strict=True) if text.strip()}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [line(header), line(["---"] * len(header)), *map(line, rows)]


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def sections_of(results: Iterable[Result]) -> list[dict[str, Any]]:
    return [section for result in results for section in result["sections"]]


def conditions(results: Sequence[Result]) -> list[str]:
    """When, where and with what."""

    def all_of(values: Iterable[str]) -> str:
        return ", ".join(sorted(set(values)))

    versions = {name: text for section in sections_of(results) for name, text in section.get("versions", {}).items()}
    machine = results[0]["machine"]
    return [
        f"Measured {all_of(result['date'] for result in results)} on {machine['cores']} cores "
        f"({machine['cpu']}, {machine['system']}, Python {machine['python']}), "
        f"driftless at commit {all_of(result['commit'] for result in results)}.",
        f"Versions: {', '.join(f'{name} {text}' for name, text in sorted(versions.items()))}.",
    ]


def cell(section: Mapping[str, Any], label: str) -> str:
    time = next((time for time in section["times"] if time["label"] == label), None)
    if time is None:
        return ""
    return seconds_text(time["median"]) if "median" in time else time["missing"][:40]


def times_table(results: Sequence[Result]) -> list[str]:
    """The table of work and peers, in time a round."""
    rows = [
        [section["title"], *(cell(section, label) for label in COLUMNS)]
        for section in sections_of(result for result in results if result["name"] in ROW_SCRIPTS)
    ]
    return table(["seconds a round, FedAvg", *COLUMNS], rows) if rows else []


def claims_table(result: Result) -> list[str]:
    rows = [
        [f"`{claim['id']}`", claim["text"], value_text(claim), target_text(claim), reached_text(claim)]
        for section in result["sections"]
        for claim in section["claims"]
    ]
    return table(["id", "ratio or value", "measured (quartiles over turns)", "target", "reached"], rows)


def losses_text(result: Result) -> list[str]:
    losses = ", ".join(f"{label} {loss:.4f}" for label, loss in result.get("losses", {}).items())
    return [f"The same work: training loss after four rounds of the MLP row: {losses}.", ""] if losses else []


def shortfalls(results: Sequence[Result]) -> list[str]:
    known = explanations()
    lines = list[str]()
    for section in sections_of(results):
        for claim in section["claims"]:
            unmeasured = claim["target"] is not None and claim["value"] is None
            if claim["reached"] is False or unmeasured:
                text = known.get(claim["id"], "not yet explained")
                measured = f"{value_text(claim)}, target {target_text(claim)}"
                lines += [f"- `{claim['id']}` {claim['text']}: {measured}. {text}"]
    return lines or ["Nothing: every target was reached."]


def is_clean(commit: str) -> bool:
    return commit != "unknown" and not commit.endswith(WITH_CHANGES)


def unpublishable(results: Sequence[Result]) -> str:
    """Why these results may not be published; empty if they may."""
    found = {result["name"] for result in results}
    if missing := [name for name in NAMES if name not in found]:
        return f"{', '.join(missing)} not measured yet"
    if quick := [result["name"] for result in results if result["quick"]]:
        return f"{', '.join(quick)} measured with --quick only"
    commits = sorted({result["commit"] for result in results})
    if len(commits) > 1 or not is_clean(commits[0]):
        return f"measured at {', '.join(commits)}; all must be measured at one commit without changes"
    return ""


def page(results: Sequence[Result]) -> str:
    lines = ["# Results of the benchmarks", "", "Written by `make bench`; see README.md for how it is measured.", ""]
    lines += [*(f"{text}\n" for text in conditions(results)), "## Times", "", *times_table(results), ""]
    for result in results:
        lines += [f"## {result['name']}", "", *claims_table(result), "", *losses_text(result)]
    lines += ["## Not reached, and why", "", *shortfalls(results)]
    return "\n".join(lines) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; default: all")
    arguments.add_argument("--quick", action="store_true", help="fewer and shorter turns, for a first look")
    arguments.add_argument("--write", action="store_true", help="run nothing")
    given = arguments.parse_args()
    if unknown := set(given.names) - set(NAMES):
        arguments.error(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if not (given.write or given.quick or given.names) and not is_clean(now := commit()):
        raise SystemExit(f"The working tree is '{now}'; commit the changes first, or use --quick for a first look.")
    failed = [] if given.write else run(given.names or NAMES, given.quick)
    if failed:
        raise SystemExit(f"These benchmarks failed: {', '.join(failed)}. RESULTS.md was not written.")
    results = [result for name in NAMES if (result := read(name)) is not None]
    if why := unpublishable(results):
        raise SystemExit(f"RESULTS.md was not written: {why}.")
    PAGE.write_text(page(results))
    print(f"\nWrote {PAGE.relative_to(HERE.parent)}.")


if __name__ == "__main__":
    main()
