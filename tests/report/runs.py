"""Run directories with numbers that are known, written as a run writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from driftless.config.resolution import resolve, to_toml
from driftless.runs.directory import StoredRun

FEDERATION = {
    "clients": 4, "examples": 40, "sizes": [10, 10, 10, 10], "labels": [[10, 0], [10, 0], [0, 10], [5, 5]],
    "classes": 2, "validation_clients": 0,
}  # fmt: skip
ENVIRONMENT = {"driftless": "0.1.0", "python": "3.11.7", "cores": 2, "command": ["driftless", "run"]}


def accuracies(values: Sequence[float | None], megabytes: float = 1.0, **more: Any) -> list[dict[str, Any]]:
    """A row a round with these test accuracies (None: not evaluated), `megabytes` sent and ten examples in each."""
    rows: list[dict[str, Any]] = []
    for t, value in enumerate(values, 1):
        half = int(megabytes * 5e5)
        row = {"round": t, "bytes_down": half, "bytes_up": half, "examples": 10, "simulated_time": 2.5, **more}
        rows.append(row if value is None else {**row, "test_accuracy": value})
    return rows


def write_run(
    path: Path,
    overrides: Iterable[str],
    rows: Sequence[Mapping[str, Any]],
    status: str | None = "finished",
    reason: str | None = None,
    events: Sequence[Mapping[str, Any]] = (),
    environment: Mapping[str, Any] | None = ENVIRONMENT,
    federation: Mapping[str, Any] | None = FEDERATION,
) -> StoredRun:
    """`run.rounds` is the number of rows unless the overrides say otherwise; no status: the run has not ended."""
    given = list(overrides)
    if not any(text.startswith("run.rounds=") for text in given):
        given.append(f"run.rounds={max(len(rows), 1)}")
    path.mkdir(parents=True)
    (path / "config.toml").write_text(to_toml(resolve(None, given)), encoding="utf-8")
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    if environment is not None:
        (path / "environment.json").write_text(json.dumps(environment), encoding="utf-8")
    if federation is not None:
        (path / "federation.json").write_text(json.dumps(federation), encoding="utf-8")
    if status is not None:
        result = {"status": status, "reason": reason, "rounds": len(rows), "final": dict(rows[-1]) if rows else {}}
        (path / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return StoredRun(path)


class Folder:
    """Writes runs next to one another: `folder("fedavg", 0, [0.1, 0.5])`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self, algorithm: str, seed: int, values: Sequence[float | None], *settings: str, **how: Any
    ) -> StoredRun:
        ours = ("status", "reason", "events", "environment", "federation")
        more = {key: how.pop(key) for key in list(how) if key not in ours}
        number = len(list(self.path.iterdir())) if self.path.exists() else 0
        overrides = [f"algorithm={algorithm}", f"run.seed={seed}", *settings]
        return write_run(self.path / f"run-{number}", overrides, accuracies(values, **more), **how)
