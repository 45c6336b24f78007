"""One TOML file = one experiment: precedence, short keys, sources, and what every mistake is answered with."""

from __future__ import annotations

import itertools
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from driftless import ALGORITHMS, LocalTraining, ServerSchedule, load, simulate
from driftless.config import build
from driftless.config.options import SECTIONS
from driftless.config.resolution import Resolved, combine, flat, resolve, to_toml, with_values
from driftless.errors import InputError
from runs.runs import Records, saved, small, start


def of(*overrides: str) -> Resolved:
    return resolve(None, overrides)


def value(key: str, *overrides: str) -> Any:
    return flat(of(*overrides).config)[key]


def written(folder: Path, text: str) -> Path:
    file = folder / "experiment.toml"
    file.write_text(text, encoding="utf-8")
    return file


def error_of(*overrides: str, file: Path | None = None) -> str:
    with pytest.raises(InputError) as caught:
        resolve(file, overrides)
    return str(caught.value)


def read_back(resolved: Resolved, folder: Path) -> Resolved:
    return resolve(written(folder, to_toml(resolved)), [])


# Precedence and sources


def test_the_command_line_wins_over_the_file_and_the_file_over_the_default(tmp_path):
    file = written(tmp_path, "[local]\nlr = 0.3\nepochs = 4\n[run]\nrounds = 7\n")
    resolved = resolve(file, ["lr=0.5", "seed=3"])
    assert {key: (flat(resolved.config)[key], resolved.source[key]) for key in SHOWN} == {
        "local.lr": (0.5, "command line"),
        "local.epochs": (4, str(file)),
        "run.rounds": (7, str(file)),
        "run.seed": (3, "command line"),
        "run.cohort": (10, "default"),
    }


SHOWN = ["local.lr", "local.epochs", "run.rounds", "run.seed", "run.cohort"]


def test_without_a_file_and_settings_everything_is_the_default():
    resolved = of()
    assert set(resolved.source.values()) == {"default"}
    depending = {"data.partition": "dirichlet", "local.epochs": 5}
    for section, model in SECTIONS.items():
        for name, field in model.model_fields.items():
            key = f"{section}.{name}"
            assert flat(resolved.config)[key] == depending.get(key, field.default)
    assert flat(resolved.config)["data.alpha"] == 0.1


@pytest.mark.parametrize(
    ("words", "partition", "alpha"),
    [
        ("", "dirichlet", 0.1),
        ("alpha=0.5", "dirichlet", 0.5),
        ("partition=none alpha=0.5", "dirichlet", 0.5),
        ("partition=iid", "iid", None),
        ("partition=prior-dirichlet alpha=0", "prior-dirichlet", 0.0),
        ("data=femnist", "natural", None),
        ("data=femnist partition=dirichlet alpha=0.3", "dirichlet", 0.3),
        ("data=quadratics", None, None),
        ("data=linear-regression", None, None),
    ],
)
def test_the_partition_is_dirichlet_or_that_of_the_data(words: str, partition: str | None, alpha: float | None):
    config = of(*words.split()).config
    assert (config.data.partition, (config.data.model_extra or {}).get("alpha")) == (partition, alpha)


def test_a_named_dirichlet_partition_needs_its_alpha():
    with pytest.raises(InputError, match="partition 'dirichlet' needs alpha"):
        build.federation_of(of("partition=dirichlet").config)


def test_options_of_the_default_partition_go_when_another_is_named(tmp_path):
    file = written(tmp_path, "[data]\nalpha = 0.5\nsizes = 'lognormal'\n")
    assert (resolve(file, []).config.data.model_extra or {})["alpha"] == 0.5
    assert "alpha" not in (resolve(file, ["partition=iid"]).config.data.model_extra or {})


def test_the_full_batch_is_written_and_read_as_none(tmp_path):
    for settings in (["batch_size=none"], ["algorithm=fedsgd"]):
        resolved = of(*settings)
        assert 'batch_size = "none"' in to_toml(resolved)
        assert read_back(resolved, tmp_path).config == resolved.config
        assert resolved.config.local.batch_size is None
    assert resolve(written(tmp_path, "[local]\nclip_norm = 'none'\n"), []).config.local.clip_norm is None


def test_steps_take_the_place_of_the_default_epochs(tmp_path):
    resolved = of("steps=3")
    assert (resolved.config.local.epochs, resolved.config.local.steps) == (None, 3)
    assert read_back(resolved, tmp_path).config == resolved.config
    searched = with_values(of(), {"local.steps": 7}, "trial 1").config.local
    assert (searched.epochs, searched.steps) == (None, 7)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "partition=iid alpha=0.1",
            "unknown key 'alpha'; data.alpha is an option of data.partition=dirichlet or "
            "data.partition=prior-dirichlet or data.partition=pachinko, and the partition is iid; set "
            "data.partition=dirichlet.",
        ),
        ("partition=iid data.alpha=0.1", "and the partition is iid; set data.partition=dirichlet."),
        ("data=femnist alpha=0.1", "and the partition is natural; set data.partition=dirichlet."),
        (
            "algorithm.alpha=0.1",
            "unknown key 'algorithm.alpha'; data.alpha is an option of data.partition=dirichlet or",
        ),
        ("shards_per_client=3", "is an option of data.partition=shards, and the partition is dirichlet; set"),
        ("algorithm=fedcm alpha=0.1", "'alpha' could be data.alpha or algorithm.alpha; write which one you mean."),
        ("algorithm=fedavgm momentum=0.8", "'momentum' could be algorithm.momentum or local.momentum"),
        ("data=quadratics alpha=0.1", "unknown key 'alpha'"),
    ],
)
def test_an_option_of_another_partition_is_answered_with_that_partition(words: str, said: str):
    assert said in error_of(*words.split())


def test_every_key_of_every_section_is_taken_from_a_file_and_from_the_command_line(tmp_path):
    given = {
        f"{section}.{name}": field.default
        for section, model in SECTIONS.items()
        for name, field in model.model_fields.items()
        if field.default is not None
    }
    given |= {"data.clients": 7, "data.seed": 3, "local.batch_size": 4, "engine.threads": 1, "run.patience": 5}
    given |= {"data.partition": "iid", "server.weighting": "uniform", "server.inference": "cloud", "local.steps": 2}
    given |= {"server.reference_cohort": 3, "engine.block_size": 3, "run.output": "here", "run.target": 0.5}
    given |= {"local.clip_norm": 2.0}
    lines = [f"{key.partition('.')[0]}.{key.partition('.')[2]} = {toml(v)}" for key, v in given.items()]
    from_file = resolve(written(tmp_path, "\n".join(lines)), [])
    from_words = of(*(f"{key}={toml(v)}" for key, v in given.items()))
    assert from_file.config == from_words.config
    for key, v in given.items():
        assert flat(from_file.config)[key] == v
        assert from_file.source[key] == str(tmp_path / "experiment.toml")
        assert from_words.source[key] == "command line"


def toml(v: Any) -> str:
    return str(v).lower() if isinstance(v, bool) else f'"{v}"' if isinstance(v, str) else str(v)


def test_steps_replace_the_files_epochs_and_the_reverse(tmp_path):
    epochs = written(tmp_path, "[local]\nepochs = 5\n")
    assert (resolve(epochs, ["steps=3"]).config.local.epochs, resolve(epochs, ["steps=3"]).config.local.steps) == (
        None,
        3,
    )
    steps = written(tmp_path, "[local]\nsteps = 5\n")
    assert (resolve(steps, ["epochs=2"]).config.local.epochs, resolve(steps, ["epochs=2"]).config.local.steps) == (
        2,
        None,
    )


def test_hyper_parameters_of_a_replaced_algorithm_are_dropped(tmp_path):
    file = written(tmp_path, '[algorithm]\nname = "adabest"\nmu = 0.3\nbeta = 0.5\n')
    assert build.algorithm_of(resolve(file, ["algorithm=fedavg"]).config) == ALGORITHMS["fedavg"]()
    assert build.algorithm_of(resolve(file, ["algorithm=adabest"]).config) == ALGORITHMS["adabest"](mu=0.3, beta=0.5)
    assert build.algorithm_of(resolve(file, ["algorithm=feddyn", "mu=0.1"]).config) == ALGORITHMS["feddyn"](mu=0.1)


def test_naming_the_default_algorithm_again_keeps_the_files_hyper_parameters(tmp_path):
    file = written(tmp_path, "[algorithm]\nserver_lr = 0.5\n")
    assert flat(resolve(file, ["algorithm=fedavg"]).config)["algorithm.server_lr"] == 0.5


def test_naming_the_default_data_set_again_keeps_the_files_clients(tmp_path):
    file = written(tmp_path, "[data]\nclients = 20\n")
    assert resolve(file, ["data=digits"]).config.data.clients == 20


def test_options_of_a_replaced_partition_are_dropped(tmp_path):
    file = written(tmp_path, '[data]\nclients = 20\npartition = "dirichlet"\nalpha = 0.3\n')
    config = resolve(file, ["data.partition=iid"]).config
    assert (config.data.partition, config.data.clients, config.data.model_extra) == ("iid", 20, {})


def test_what_an_algorithm_demands_is_filled_in_and_says_who_demanded_it():
    resolved = of("algorithm=fedsgd")
    assert (resolved.config.local.steps, resolved.config.local.lr) == (1, 1.0)
    assert resolved.source["local.steps"] == "algorithm fedsgd"


# Short keys, headlines, order


@pytest.mark.parametrize(
    ("word", "key", "expected"),
    [
        ("rounds=60", "run.rounds", 60),
        ("lr=0.1", "local.lr", 0.1),
        ("lr=1e-3", "local.lr", 0.001),
        ("lr=[0.1,0.05]", "local.lr", [0.1, 0.05]),
        ("lr=[1,0.5]", "local.lr", [1.0, 0.5]),
        ("momentum=0.9", "local.momentum", 0.9),
        ("seed=4", "run.seed", 4),  # data.seed must be written in full
        ("clients=30", "data.clients", 30),
        ("batch_size=none", "local.batch_size", None),
        ("precision=float64", "engine.precision", "float64"),
        ("weighting=uniform", "server.weighting", "uniform"),
        ("clipping=adaptive", "server.clipping", "adaptive"),
        ("cohort=0.1", "run.cohort", 0.1),
        ("cohort=cyclic:5", "run.cohort", "cyclic:5"),
        ("cohort=[[0, 1], [2]]", "run.cohort", [[0, 1], [2]]),
        ("stop_at_target=true", "run.stop_at_target", True),
        ("output=runs/a=b", "run.output", "runs/a=b"),
        ("algorithm=adabest", "algorithm.name", "adabest"),
        ("data=quadratics", "data.name", "quadratics"),
        ("model=cnn", "model.name", "cnn"),
        ("engine=block", "engine.kind", "block"),
        ("server_lr=0.5", "algorithm.server_lr", 0.5),  # of fedavg, the default
    ],
)
def test_a_short_key_finds_its_section(word: str, key: str, expected: Any):
    resolved = of(word)
    assert flat(resolved.config)[key] == expected
    assert type(flat(resolved.config)[key]) is type(expected)
    assert resolved.source[key] == "command line"


@pytest.mark.parametrize("word", ["output=2024-05-01", "output=2024", "output=1e3", "output=true"])
def test_where_a_text_is_wanted_the_words_are_taken_as_they_are(word: str):
    assert value("run.output", word) == word.partition("=")[2]


def test_none_is_a_text_where_it_is_one_of_the_choices(tmp_path):
    resolved = of("algorithm=fedadam", "bias_correction=none", "clipping=none", "batch_size=none")
    assert build.algorithm_of(resolved.config) == ALGORITHMS["fedadam"](bias_correction="none")
    assert (resolved.config.server.clipping, resolved.config.local.batch_size) == ("none", None)
    assert read_back(resolved, tmp_path).config == resolved.config
    file = written(tmp_path, '[algorithm]\nname = "fedadam"\nbias_correction = "none"\n')
    assert build.algorithm_of(resolve(file, []).config) == ALGORITHMS["fedadam"](bias_correction="none")


@pytest.mark.parametrize("text", [".9", "0.9", "9e-1"])
def test_a_number_may_be_written_as_in_python_for_every_section(text: str):
    resolved = of("algorithm=adabest", f"beta={text}", f"lr={text}")
    assert flat(resolved.config)["local.lr"] == 0.9
    assert build.algorithm_of(resolved.config) == ALGORITHMS["adabest"](beta=0.9)


WORDS = ["beta=0.5", "algorithm=adabest", "alpha=0.3", "partition=dirichlet", "data=digits", "lr=0.2", "rounds=5"]


@given(st.permutations(WORDS))
def test_the_order_of_the_words_is_irrelevant(order: list[str]):
    assert of(*order).config == of(*WORDS[3:], *WORDS[1:3], *WORDS[:1]).config


@pytest.mark.parametrize("order", list(itertools.permutations(["alpha=0.3", "partition=dirichlet", "algorithm=fedcm"])))
def test_a_short_key_of_two_sections_is_an_error_that_names_both(order: tuple[str, ...]):
    said = error_of(*order)
    assert "data.alpha" in said
    assert "algorithm.alpha" in said


def test_the_full_keys_settle_an_ambiguous_short_one():
    resolved = of("data.alpha=0.3", "data.partition=dirichlet", "algorithm=fedcm", "algorithm.alpha=0.2")
    assert (flat(resolved.config)["data.alpha"], flat(resolved.config)["algorithm.alpha"]) == (0.3, 0.2)


def test_a_short_key_may_refer_to_the_files_algorithm_and_partition(tmp_path):
    file = written(tmp_path, '[algorithm]\nname = "ghbm"\n[data]\npartition = "dirichlet"\n')
    resolved = resolve(file, ["tau=3", "alpha=0.3"])
    assert (flat(resolved.config)["algorithm.tau"], flat(resolved.config)["data.alpha"]) == (3, 0.3)


def test_a_headline_in_a_file_is_the_sections_name(tmp_path):
    file = written(tmp_path, 'algorithm = "adabest"\ndata = "digits"\nmodel = "logistic"\nengine = "block"\n')
    config = resolve(file, []).config
    assert (config.algorithm.name, config.model.name, config.engine.kind) == ("adabest", "logistic", "block")


@pytest.mark.parametrize(
    "pair", [("rounds=1", "rounds=2"), ("lr=0.1", "local.lr=0.1"), ("algorithm=fedavg", "algorithm.name=fedavg")]
)
def test_a_key_given_twice_is_an_error(pair: tuple[str, str]):
    assert "given twice" in error_of(*pair)


# Mistakes


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("roundz=5", "rounds"),
        ("local.lrr=0.1", "lr"),
        ("run.see=1", "seed"),
        ("locl.lr=0.1", "local"),
        ("algorithm.server_rl=0.5", "server_lr"),
        ("data.cleints=5", "clients"),
        ("algorithm=scafold", "scaffold"),
        ("algorithm=FedAvg", "fedavg"),
        ("data=digit", "digits"),
        ("data.partition=dirichelt", "dirichlet"),
        ("enginee=block", "engine"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_valid_one(word: str, nearest: str):
    said = error_of(word)
    assert f"did you mean '{nearest}'?" in said


def test_a_key_of_another_algorithm_is_unknown_and_the_allowed_ones_are_listed():
    said = error_of("algorithm=adabest", "algorithm.server_lr=0.5")
    assert "unknown option of algorithm 'adabest' 'server_lr'" in said
    assert "Allowed: beta, beta_decay, mu, plateau_rounds, size_adaptive." in said


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        ("clients_per_round", "run.cohort"),
        ("C", "run.cohort"),
        ("E", "local.epochs"),
        ("B", "local.batch_size"),
        ("learning_rate", "local.lr"),
        ("num_rounds", "run.rounds"),
        ("dataset", "data.name"),
    ],
)
def test_the_names_of_other_simulators_are_hints_only(tmp_path: Path, other: str, ours: str):
    for said in (
        error_of(f"{other}=5"),
        error_of(f"run.{other}=5"),
        error_of(f"algorithm.{other}=5"),
        error_of(file=written(tmp_path, f"[local]\n{other} = 5\n")),
    ):
        assert re.search(rf"unknown key '\w*\.?{other}'; here it is called {ours}", said)


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("rounds=abc", "run.rounds must be a whole number, got 'abc'"),
        ("rounds=1.5", "run.rounds must be a whole number, got 1.5"),
        ("rounds=", "run.rounds must be a whole number, got ''"),
        ("rounds=none", "run.rounds must be a whole number, got None"),
        ("rounds=[5]", "run.rounds must be a whole number, got [5]"),
        ("lr=[[1]]", "local.lr must be a number or a list of numbers or a text, got [[1]]"),
        ("clients=many", "data.clients must be a whole number or none, got 'many'"),
        ("cohort=[1, 2]", "run.cohort must be a whole number or a number or a text or lists of client numbers"),
        ("cohort=[['a']]", "run.cohort must be"),
        ("stop_at_target=maybe", "run.stop_at_target must be true or false, got 'maybe'"),
        ("run.cohort=none", "run.cohort must be"),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error_that_says_what_is_wanted_and_where_it_stands(word: str, wanted: str):
    said = error_of(word)
    assert said.startswith(wanted)
    assert "(command line)" in said


@pytest.mark.parametrize(
    "word", ["rounds=true", "lr=true", "cohort=true", "clients=false", "validation=true", "target=true"]
)
def test_true_and_false_are_not_numbers(word: str):
    assert "must be" in error_of(word)


def test_a_wrong_type_in_a_file_names_the_file(tmp_path):
    file = written(tmp_path, '[run]\nrounds = "many"\n')
    assert error_of(file=file) == f"run.rounds must be a whole number, got 'many' ({file}); correct it there."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run\nrounds = 2", "line 1"),
        ("[run]\nrounds = 2\nrounds = 3", "Cannot overwrite a value"),
        ("[local]\nlr = \n", "line 2"),
        ("[rum]\nrounds = 2\n", "did you mean 'run'?"),
        ("[local]\nlrr = 2\n", "did you mean 'lr'?"),
        ('[algorithm]\nname = "adabest"\nbeat = 2\n', "did you mean 'beta'?"),
        ("[data]\npartition = 'iid'\nalpha = 0.3\n", "set data.partition=dirichlet"),
        ("[local.lr]\nvalue = 2\n", "local.lr must be a number"),
        ("rounds = 5\n", "unknown section"),
        ("local = 5\n", "section 'local'"),
    ],
)
def test_a_mistake_in_a_file_is_an_error_that_finds_it(tmp_path: Path, text: str, said: str):
    assert said in error_of(file=written(tmp_path, text))


def test_a_missing_file_a_directory_and_a_file_that_is_no_text_are_errors(tmp_path):
    assert "there is no configuration file" in error_of(file=tmp_path / "missing.toml")
    assert "TOML file" in error_of(file=tmp_path)
    (tmp_path / "image.toml").write_bytes(b"\x89PNG\xff\xfe")
    assert "TOML file" in error_of(file=tmp_path / "image.toml")


def test_a_path_that_leads_through_a_file_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    assert str(tmp_path / "file" / "below.toml") in error_of(file=tmp_path / "file" / "below.toml")


@pytest.mark.parametrize("word", ["fedavg", "=5", "  =5"])
def test_a_word_without_a_key_is_an_error(word: str):
    assert "is not of the form key=value" in error_of(word)


# The resolved configuration as TOML


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["algorithm=fedsgd"],
        ["algorithm=adabest", "beta=0.5", "size_adaptive=false", "plateau_rounds=3"],
        ["data.partition=dirichlet", "data.alpha=0.3", "sizes=lognormal", "validation=0.1", "clients=30"],
        ["cohort=[[0, 1], [2, 3]]", "rounds=2"],
        ["cohort=doubling:2,5,20"],
        ["cohort=0.25", "lr=1e-05", "weight_decay=1e22", "target=inf"],
        ["steps=3", "batch_size=4", "clip_norm=2.5", "stop_at_target=true", "patience=3", "data.seed=9"],
        ["output=runs/with # sign", "algorithm=fedavg"],
        ['output=a"quote\\and\\back'],
        ["output=schön/数据/😀"],
    ],
    ids=" ".join,
)
def test_the_printed_configuration_read_back_is_the_same(tmp_path: Path, overrides: list[str]):
    resolved = of(*overrides)
    assert read_back(resolved, tmp_path).config == resolved.config


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_survives_the_printed_configuration(tmp_path_factory, text: str):
    resolved = combine([("a test", {"run.output": text})])
    assert read_back(resolved, tmp_path_factory.getbasetemp()).config.run.output == text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_hyper_parameters_given_one_by_one_read_back_as_the_same_algorithm(tmp_path: Path, name: str):
    default = ALGORITHMS[name]()
    words = [f"algorithm.{f.name}={toml(getattr(default, f.name))}" for f in fields(default)]
    resolved = of(f"algorithm={name}", *words)
    assert build.algorithm_of(resolved.config) == default
    assert build.algorithm_of(read_back(resolved, tmp_path).config) == default


def test_the_printed_configuration_shows_every_hyper_parameter_also_the_defaults():
    for name, cls in ALGORITHMS.items():
        lines = to_toml(of(f"algorithm={name}")).splitlines()
        shown = lines[lines.index("[algorithm]") + 1 : lines.index("[local]")]
        for f in fields(cls):
            pattern = rf"(# )?{f.name} = {re.escape(toml(f.default))}\s+# default"
            assert any(re.fullmatch(pattern, line) for line in shown), (name, f.name)


def test_every_printed_line_says_where_its_value_came_from(tmp_path):
    file = written(tmp_path, "[local]\nlr = 0.3\n")
    lines = [line for line in to_toml(resolve(file, ["rounds=7"])).splitlines() if "=" in line]
    assert all(re.fullmatch(r"(# )?\w+ = .+?\s+# .+", line) for line in lines)
    assert [line.split()[-1] for line in lines if line.startswith("lr =")] == [str(file)]
    assert [line.split("#")[-1] for line in lines if line.startswith("rounds =")] == [" command line"]
    assert [line.split("#")[-1] for line in lines if line.startswith("seed =")] == [" default"]


# From the configuration to the run


def test_a_configured_run_is_what_simulate_runs_with_the_same_settings(tmp_path):
    heard = Records()
    start(
        tmp_path / "run", "algorithm=scaffold", "server_lr=0.9", "data.partition=dirichlet", "data.alpha=0.5",
        "lr=0.05", "weighting=examples", "warmup_rounds=3", "seed=2", "precision=float64", callbacks=[heard],
    )  # fmt: skip
    federation = load("digits", clients=20, partition="dirichlet", alpha=0.5, seed=2)
    result = simulate(
        ALGORITHMS["scaffold"](server_lr=0.9), federation, "logistic", rounds=8, cohort=5,
        local=LocalTraining(lr=0.05, epochs=1, batch_size=40), weighting="examples", seed=2, engine="block",
        dtype=torch.float64, server=ServerSchedule(warmup_rounds=3),
    )  # fmt: skip
    assert torch.equal(saved(tmp_path / "run")["server.x"], result.x)
    shared = [name for name in result.history.columns if not name.endswith("seconds")]
    for row, record in zip(result.history, heard.records, strict=True):
        assert {name: row[name] for name in shared} == {name: record.metrics[name] for name in shared}


def test_the_seed_of_the_data_alone_keeps_the_partition_when_the_run_gets_another_seed():
    one, other = (build.federation_of(small("data.seed=5", f"seed={seed}").config) for seed in (0, 1))
    assert torch.equal(one.inputs, other.inputs)
    one, other = (build.federation_of(small(f"seed={seed}").config) for seed in (0, 1))
    assert not torch.equal(one.inputs, other.inputs)


@pytest.mark.parametrize("key", ["run.output", "model.weights", "algorithm.name"])
@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"], ids=["a null", "half a character"])
def test_a_text_that_no_file_can_have_as_its_name_is_refused(key: str, text: str):
    with pytest.raises(InputError, match=f"{key} is .* write it without characters that are not text"):
        combine([("a test", {key: text})])
