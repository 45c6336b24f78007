"""When a run ends before its last round."""

from __future__ import annotations

from typing import Any

from driftless.config.resolution import Config

Row = dict[str, Any]
"""A line of metrics.jsonl."""


def stop_reason(config: Config, rows: list[Row]) -> str | None:
    """Why the run should stop now, from its rows alone, so that a resumed run decides the same."""
    run = config.run
    if not run.stop_at_target and run.patience is None:
        return None
    measured = [row["test_accuracy"] for row in rows if "test_accuracy" in row]
    if not measured or "test_accuracy" not in rows[-1]:
        return None
    if run.stop_at_target and run.target is not None and measured[-1] >= run.target:
        return f"test accuracy {measured[-1]:.4f} reached the target {run.target:g}"
    if run.patience is not None and len(measured) > run.patience:
        best_before = max(measured[: -run.patience])
        if max(measured[-run.patience :]) <= best_before:
            return f"no better test accuracy than {best_before:.4f} in the last {run.patience} evaluations"
    return None
