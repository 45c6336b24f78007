"""The sections have the fields of the dataclasses that they become."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from driftless import AdaptiveClipping, Aggregation, Faults, LocalTraining, ServerSchedule
from driftless.config import build, resolution
from driftless.config.build import federation_of
from driftless.config.options import SECTIONS
from driftless.config.resolution import resolve
from driftless.config.sections import Section
from driftless.errors import InputError

DOCS = Path(__file__).parents[2] / "docs"
DERIVED = {
    "local": LocalTraining, "server": ServerSchedule, "faults": Faults,
    "engine": type(build.engine_of(resolve(None, []).config)),
}  # fmt: skip
IN_A_FILE = {"lr": float | list[float] | str, "steps": int | list[int] | str | None, "dropout": float | list[float],
             "trace": str | None}  # fmt: skip
"""A function of the round is FILE.py:NAME there, a path a text."""


@pytest.mark.parametrize("section", DERIVED)
def test_every_field_of_the_dataclass_is_a_setting_of_its_type_and_default(section: str):
    hints = get_type_hints(DERIVED[section])
    for field in fields(DERIVED[section]):
        setting = SECTIONS[section].model_fields[field.name]
        written = IN_A_FILE.get(field.name, hints[field.name])
        assert (setting.annotation, setting.default) == (written, field.default)


def test_a_field_that_a_dataclass_gains_is_a_setting_without_another_line():
    @dataclass(frozen=True)
    class More(LocalTraining):
        momentum: float = 0.9

    class MoreLocal(Section, More, frozen=True):
        pass

    assert MoreLocal.model_validate({"momentum": 0.5}).momentum == 0.5
    assert MoreLocal().lr == LocalTraining().lr


def test_every_option_of_adaptive_clipping_is_a_setting():
    for field in fields(AdaptiveClipping):
        if field.name != "inner":
            assert SECTIONS["server"].model_fields[f"clipping_{field.name}"].default == field.default
    words = ["clipping=adaptive", "clipping_quantile=0.5", "clipping_lr=0.1", "clipping_initial=2.0"]
    algorithm: Any = build.algorithm_of(resolve(None, words).config)
    assert (algorithm.quantile, algorithm.lr, algorithm.initial) == (0.5, 0.1, 2.0)


def test_every_option_of_the_aggregation_is_a_setting():
    for field in fields(Aggregation):
        key = "aggregation" if field.name == "rule" else f"aggregation_{field.name}"
        setting = SECTIONS["server"].model_fields[key]
        assert (setting.annotation, setting.default) == (get_type_hints(Aggregation)[field.name], field.default)
    words = ["aggregation=multi-krum", "aggregation_attackers=3", "aggregation_keep=4", "aggregation_trim=0.2"]
    found = build.aggregation_of(resolve(None, [*words, "aggregation_bound=2.5"]).config)
    assert found == Aggregation("multi-krum", trim=0.2, attackers=3, keep=4, bound=2.5)


def test_values_are_checked_when_the_dataclass_is_made_and_not_before():
    config = resolve(None, ["lr=-1", "engine=fast", "lr_scaling=cubic"]).config
    with pytest.raises(InputError, match=r"local\.lr"):
        build.local_of(config)
    with pytest.raises(InputError, match="engine"):
        build.engine_of(config)


def test_a_setting_of_an_earlier_version_is_ignored_where_it_did_what_is_done_now(tmp_path, monkeypatch):
    monkeypatch.setattr(resolution, "REMOVED", {"engine.turbo": "off"})
    file = tmp_path / "config.toml"
    file.write_text('[engine]\nturbo = "off"\n')
    assert resolve(file, []).config == resolve(None, []).config
    file.write_text('[engine]\nturbo = "on"\n')
    with pytest.raises(InputError, match="unknown key of section 'engine' 'turbo'"):
        resolve(file, [])


def test_every_setting_is_in_the_documentation():
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("experiments.md", "speed.md"))
    named = {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", code)}
    missing = [f"{part}.{key}" for part, model in SECTIONS.items() for key in model.model_fields if key not in named]
    assert not missing, f"name these in docs/experiments.md or docs/speed.md: {missing}"


def test_a_share_of_the_clients_examples_is_kept_for_their_test():
    federation = federation_of(resolve(None, ["data.client_test=0.25", "data.clients=10"]).config)
    assert federation.client_test is not None
    assert federation.client_test.sizes.sum() / (federation.client_test.sizes.sum() + federation.sizes.sum()) < 0.3
    assert federation_of(resolve(None, []).config).client_test is None
    with pytest.raises(InputError, match="client_test, the share"):
        federation_of(resolve(None, ["data.client_test=1"]).config)
