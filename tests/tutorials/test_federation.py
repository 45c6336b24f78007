"""The tutorial that starts a federation: a real SuperLink, four real SuperNodes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr")

from deploy import warm
from deploy.flower_federation import free_ports
from tutorials.page import environment, walk
from tutorials.test_tutorials import FEDERATION

PORTS = ("8000", "9100", "9101", "9102", "9103")


@pytest.mark.slow
def test_the_federation_goes_on_without_the_node_that_is_stopped(tmp_path: Path):
    """As printed, but for two things: free ports, and Flower's programs are forked from one that has imported torch."""
    text = FEDERATION.read_text(encoding="utf-8")
    for printed, free in zip(PORTS, free_ports(len(PORTS)), strict=True):
        assert printed in text
        text = text.replace(printed, str(free))
    env = environment() | {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.4", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    programs, server = warm.start(tmp_path, env)
    (folder := tmp_path / "reader").mkdir()
    try:
        walk(text, folder, env | {"PATH": f"{programs}:{env['PATH']}"})
    finally:
        server.terminate()
        server.wait()
