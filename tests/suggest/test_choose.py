"""The numbers and verdicts of docs/choose.md are those that were published."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from driftless.cli import app
from driftless.suggest.advice import published_verdict

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "choose.md").read_text(encoding="utf-8")
ROWS = re.findall(r"\| ([^|]+) \| (\w+) \| `(guide/[\w-]+/[\w-]+)` \|", PAGE)
MENTIONED = re.findall(r"`(\w[\w-]*/[\w-]+/[\w-]+)`(?:: |, )(supported|refuted)", PAGE)


def test_the_points_of_the_tables_are_the_published_ones():
    assert len(ROWS) >= 10
    for points, verdict, evidence in ROWS:
        _, study, name = evidence.split("/")
        stored = json.loads((DOCS / "papers" / "results" / "guide" / f"{study}.json").read_text(encoding="utf-8"))
        claim = next(one for one in stored["claims"] if one["name"] == name)
        assert verdict == claim["verdict"]
        if points != claim["ours"]:  # which some tables show instead, with its interval
            mean = np.mean([np.mean(check["differences"]) for check in claim["checks"]])
            assert float(points) == pytest.approx(mean, abs=0.051), evidence


def test_verdicts_in_the_text_are_the_published_ones():
    assert len(MENTIONED) >= 4
    for evidence, verdict in MENTIONED:
        assert published_verdict(evidence) == verdict, evidence


def test_the_numbers_in_the_text_are_the_published_ones():
    labels = json.loads((DOCS / "papers" / "results" / "guide" / "labels.json").read_text(encoding="utf-8"))
    claims = {one["name"]: one for one in labels["claims"]}
    loss = np.mean(claims["harder"]["checks"][0]["differences"])
    assert f"FedAvg itself loses {loss:.1f} points" in PAGE
    gains = [np.mean(check["differences"]) for name in ("some-labels", "iid") for check in claims[name]["checks"]]
    assert f"largest mean advantage over FedAvg in study 1\nwas {max(gains):.1f} points" in PAGE
    assert {claims["some-labels"]["verdict"], claims["iid"]["verdict"]} == {"undecided"}


def test_the_printed_output_is_that_of_the_command():
    (command,) = re.findall(r"^driftless suggest .*$", PAGE, re.MULTILINE)
    (printed,) = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    assert CliRunner().invoke(app, shlex.split(command)[1:]).output.rstrip("\n") == printed
