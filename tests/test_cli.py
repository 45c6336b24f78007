"""The command line: every user's mistake is one message and exit code 2, and what is printed can be relied upon."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from driftless import ALGORITHMS, __version__
from driftless.config.resolution import resolve
from driftless.console import LISTS
from driftless.cost import vectors
from driftless.data import DATASETS, PARTITIONS
from driftless.models import MODELS
from driftless.papers import PAPERS
from driftless.runs.callbacks import ShowProgress
from driftless.runs.directory import StoredRun
from report.runs import accuracies, write_run
from runs.runs import DIVERGING, AfterRound, Outcome, assert_same_run, command, lines, start, words

Command = Callable[..., Outcome]


@pytest.fixture
def driftless(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: command(monkeypatch, capsys, *arguments)


def refused(ended: Outcome) -> str:
    """The one message of a user's mistake."""
    assert ended.code == 2
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("error: ") == 1
    assert ended.err.count("\n") == 1
    return ended.err


def strict(text: str) -> Any:
    """Exactly one document of JSON as the standard defines it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["run", "--frobnicate"], "No such option: --frobnicate"),
        (["resume"], "Missing argument"),
        (["list"], "Missing argument"),
        (["compare", "fedavg", "--jobs", "many"], "--jobs"),
    ],
)
def test_an_unknown_command_or_option_is_one_message(driftless: Command, arguments: list[str], said: str):
    ended = driftless(*arguments)
    assert ended.code == 2
    assert said in ended.err
    assert "Usage:" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["rounds=0"], "rounds"),
        (["lr=-1"], "local.lr"),
        (["lr=[0.1,0]"], "local.lr of round 2"),
        (["lr=[]"], "local.lr is an empty list"),
        (["lr=fast"], "local.lr is 'fast'; give a number, a list with one for each round, or FILE.py:FUNCTION"),
        (["lr=nan"], "local.lr"),
        (["lr=inf"], "local.lr"),
        (["lr_decay=2"], "local.lr_decay"),
        (["epochs=0"], "local.epochs"),
        (["steps=3"], "local.epochs=1 and local.steps=3"),
        (["batch_size=0"], "local.batch_size"),
        (["batch_size=100", "last_batch=drop"], "local.last_batch='drop'"),
        (["last_batch=long"], "local.last_batch"),
        (["clip_norm=0"], "local.clip_norm"),
        (["cohort=21"], "larger than the federation of 20 clients"),
        (["cohort=0"], "cohort"),
        (["cohort=1.5"], "cohort"),
        (["cohort=hexagonal:5"], "unknown cohort schedule"),
        (["cohort=doubling:5"], "cohort 'doubling:5'"),
        (["cohort=[[0], [1]]"], "2 explicit cohorts were given for 8 rounds"),
        (["cohort=[[0, 0]]", "rounds=1"], "more than once"),
        (["seed=-1"], "seed"),
        (["data.seed=-1"], "seed"),
        (["data.clients=0"], "clients"),
        (["data.clients=100000"], "clients"),
        (["validation=20"], "holding out 20 of 20 clients"),
        (["data.partition=dirichlet"], "needs alpha"),
        (["data.partition=dirichlet", "data.alpha=-1"], "alpha"),
        (["data.partition=natural"], "natural"),
        (["model=resnet"], "unknown model 'resnet'"),
        (["model=linear"], "linear"),
        (["data=linear-regression"], "use model 'linear'"),
        (["algorithm=fedprox", "mu=-1"], "mu"),
        (["algorithm=scaffold", "option=3"], "option"),
        (["algorithm=fedavg", "server_lr=fast"], "server_lr"),
        (["weighting=heavy"], "weighting"),
        (["inference=best"], "inference"),
        (["lr_scaling=sqrt"], "server.reference_cohort"),
        (["algorithm=feddyn", "warmup_rounds=3"], "server_lr"),
        (["warmup_rounds=-1"], "server.warmup_rounds"),
        (["clipping=some"], "server.clipping"),
        (["clipping=adaptive", "clipping_quantile=2"], "quantile"),
        (["engine=quantum"], "engine"),
        (["block_size=0"], "block_size"),
        (["precision=float16"], "engine.precision"),
        (["threads=0"], "engine.threads"),
        (["evaluate_every=-1"], "run.evaluate_every"),
        (["checkpoint_every=-1"], "run.checkpoint_every"),
        (["patience=0"], "run.patience"),
        (["stop_at_target=true"], "run.target"),
        (["stop_at_target=true", "target=0.9", "evaluate_every=0"], "evaluate_every"),
        (["patience=3", "evaluate_every=0"], "evaluate_every"),
        (["straggler_alpha=-1"], "run.straggler_alpha"),
        (["dropout=1"], "faults.dropout"),
        (["faults.dropuot=0.1"], "did you mean 'dropout'?"),
        (["faults.attack=nan"], "faults.attackers"),
        (["over_selection=1.3", "cohort=cyclic:2"], "drawn at random"),
        (["faults.trace=nowhere.csv"], "there is no trace"),
        (["roundz=3"], "did you mean 'rounds'?"),
        (["clients_per_round=3"], "run.cohort"),
        (["algorithm=scafold"], "did you mean 'scaffold'?"),
        (["algorithm=my.py:Mine"], "my.py'; algorithm=FILE.py:CLASS needs the path of a Python file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_setting_that_cannot_be_is_one_message_and_nothing_is_written(
    driftless: Command, tmp_path: Path, settings: list[str], said: str
):
    assert said in refused(driftless("run", *words(*settings, f"output={tmp_path / 'run'}")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "fedavg"], "did you mean algorithm=fedavg?"),
        (["run", "missing.toml"], "there is no configuration file 'missing.toml'"),
        (["run", "one.toml", "two.toml"], "two configuration files"),
        (["run", "broken.toml"], "TOML file of settings: Expected ']' at the end of a table declaration"),
        (["run", "folder.toml"], "'folder.toml' is not a TOML file of settings: it is a folder"),
        (["run", "compared.toml"], "use: driftless compare compared.toml"),
        (["run", "=5"], "not of the form key=value"),
        (["run", "rounds=1", "rounds=2"], "given twice"),
        (["resume", "nowhere"], "'nowhere' is not a run directory"),
        (["resume", "broken.toml"], "'broken.toml' is not a run directory"),
        (["resume", "folder.toml"], "'folder.toml' is not a run directory"),
        (["compare"], "no algorithm to compare"),
        (["compare", "fedavg", "scafold"], "did you mean 'scaffold'?"),
        (["compare", "fedavg", "seeds=0"], "seeds"),
        (["compare", "fedavg", "fedavg"], "named twice"),
        (["list", "foo"], "unknown list 'foo'"),
        (["list", "algorithm"], "did you mean 'algorithms'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_in_the_words_is_one_message(driftless: Command, tmp_path: Path, arguments: list[str], said: str):
    (tmp_path / "broken.toml").write_text("[run\n")
    (tmp_path / "compared.toml").write_text("[compare]\nalgorithms = ['fedavg']\n")
    (tmp_path / "folder.toml").mkdir()
    assert said in refused(driftless(*arguments))
    assert not (tmp_path / "runs").exists()


def test_an_output_that_cannot_be_a_folder_is_one_message(driftless, tmp_path):
    (tmp_path / "file").touch()
    for output in ("file", "file/below"):
        assert "file" in refused(driftless("run", *words("rounds=1", f"output={output}")))


def test_a_message_is_shown_as_it_is_also_with_brackets_and_colons(driftless):
    assert "'[bold]x:cat:[/bold].toml'" in refused(driftless("run", "[bold]x:cat:[/bold].toml"))


# What is printed


def test_the_version_and_the_help_are_printed(driftless):
    assert driftless("--version") == Outcome(0, f"driftless {__version__}\n", "")
    ended = driftless("--help")
    assert ended.code == 0
    assert all(name in ended.out for name in ("run", "resume", "compare", "list"))
    for name in ("run", "resume", "compare", "list"):
        assert driftless(name, "--help").code == 0
    assert "Usage:" in driftless().out


def rows_of(what: str, width: int = 200) -> list[str]:
    out = io.StringIO()
    listing = LISTS[what]
    Console(file=out, width=width).print(listing.table(listing.records()))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 200])
def test_algorithms_are_listed_with_citation_and_vectors(width: int):
    shown = rows_of("algorithms", width)
    text = "\n".join(shown)
    for name, cls in ALGORITHMS.items():
        line = next(line for line in shown if line.split()[:1] == [name])
        cost = vectors(cls())
        assert re.search(rf"\s{cost.down}\s+{cost.up}\s+{cost.client}\s", line)
        assert cls.citation.split(",")[0].split()[0] in line
        arxiv = re.search(r"arXiv:[\d.]+", cls.citation)
        assert arxiv
        assert arxiv.group() in text
    assert "…" not in text


NAMES = {
    "algorithms": ALGORITHMS, "datasets": DATASETS, "models": MODELS, "partitions": PARTITIONS, "papers": PAPERS
}  # fmt: skip


@pytest.mark.parametrize("what", ["algorithms", "datasets", "models", "partitions"])
def test_a_list_names_everything_and_says_how_to_use_it(driftless: Command, what: str):
    ended = driftless("list", what)
    assert ended.code == 0
    first = [line.split()[0] for line in ended.out.splitlines() if line.strip()]
    assert set(NAMES[what]) <= set(first)
    assert "use one: driftless run" in ended.out.splitlines()[-1]


@pytest.mark.parametrize("what", NAMES)
def test_a_list_as_json_has_an_entry_for_each_name(driftless: Command, what: str):
    records = strict(driftless("list", what, "--json").out)
    assert [each["name"] for each in records] == list(NAMES[what])
    assert all(each.get("description") or each["citation"] for each in records)


def test_the_json_of_algorithms_and_options_is_enough_to_configure_them(driftless: Command):
    algorithms = {each["name"]: each for each in strict(driftless("list", "algorithms", "--json").out)}
    adabest = algorithms["adabest"]
    assert adabest["class"] == "driftless.algorithms.adabest.AdaBest"
    assert adabest["hyper_parameters"] == vars(ALGORITHMS["adabest"]())
    assert (adabest["weighting"], algorithms["fedavg"]["weighting"]) == ("uniform", "examples")
    partitions = {each["name"]: each for each in strict(driftless("list", "partitions", "--json").out)}
    assert partitions["dirichlet"]["required"] == ["alpha"]
    assert partitions["dirichlet"]["options"]["sizes"] == "balanced"
    datasets = {each["name"]: each for each in strict(driftless("list", "datasets", "--json").out)}
    assert datasets["digits"]["available"] is True


def test_print_config_shows_every_setting_with_its_source_and_reads_back_as_the_same(driftless, tmp_path):
    (tmp_path / "base.toml").write_text('algorithm = "adabest"\n[local]\nlr = 0.3\n')
    given = ["base.toml", "rounds=7", "beta=0.5", 'output=odd "name" [red] # :x: \\ 数']
    ended = driftless("run", *given, "--print-config")
    assert (ended.code, ended.err) == (0, "")
    assert tomllib.loads(ended.out)["run"]["output"] == given[-1].partition("=")[2]
    (tmp_path / "printed.toml").write_text(ended.out, encoding="utf-8")
    assert resolve(tmp_path / "printed.toml", []).config == resolve(tmp_path / "base.toml", given[1:]).config
    sources = {line.partition("=")[0].strip(): line.rpartition("#")[2].strip() for line in ended.out.splitlines()}
    assert (sources["rounds"], sources["lr"], sources["seed"]) == ("command line", "base.toml", "default")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.toml", "printed.toml"]


def test_a_run_ends_by_saying_what_to_do_next(driftless, tmp_path):
    ended = driftless("run", *words("output=here", "rounds=3"))
    assert ended.code == 0
    assert "saved in here; next: driftless report here" in ended.out
    assert (tmp_path / "here" / "result.json").exists()


def test_without_an_output_a_run_gets_a_folder_of_its_own(driftless, tmp_path):
    for name in ("digits-adabest-seed3", "digits-adabest-seed3-2"):
        assert f"saved in runs/{name};" in driftless("run", *words("algorithm=adabest", "seed=3", "rounds=1")).out
        assert (tmp_path / "runs" / name / "result.json").exists()


def test_quiet_prints_nothing(driftless):
    assert driftless("run", *words("output=a", "rounds=2"), "--quiet") == Outcome(0, "", "")
    assert driftless("run", *words("output=b", "rounds=2"), "-q") == Outcome(0, "", "")


def test_json_is_exactly_one_document_and_nothing_else(driftless, tmp_path):
    for arguments in (["output=a"], ["output=a", "--again"], ["output=b", "algorithm=adabest", "--quiet"]):
        settings = [word for word in arguments if "=" in word]
        options = [word for word in arguments if "=" not in word]
        ended = driftless("run", *words("rounds=2", *settings), *options, "--json")
        shown = strict(ended.out)
        stored = json.loads((tmp_path / shown["directory"] / "result.json").read_text())
        assert shown == {"directory": settings[0].partition("=")[2], **stored}
        assert ended.code == 0
    assert shown["status"] == "finished"


def test_again_keeps_the_old_run_under_another_name(driftless, tmp_path):
    driftless("run", *words("output=here", "rounds=2"))
    assert "holds a finished run" in refused(driftless("run", *words("output=here", "rounds=3")))
    ended = driftless("run", *words("output=here", "rounds=3"), "--again")
    assert ended.code == 0
    assert "here.old" in ended.out
    assert (lines(tmp_path / "here.old"), lines(tmp_path / "here")) == (2, 3)


def test_again_with_a_mistake_leaves_the_old_run_where_it_is(driftless, tmp_path):
    driftless("run", *words("output=here", "rounds=2"))
    for mistake in ("lr=-1", "cohort=50", "model=resnet"):
        refused(driftless("run", *words("output=here", "rounds=2", mistake), "--again"))
        assert [path.name for path in tmp_path.iterdir()] == ["here"]
        assert lines(tmp_path / "here") == 2


def test_a_diverged_run_says_why_and_exits_with_3(driftless, tmp_path):
    ended = driftless("run", *words(*DIVERGING, "output=here"))
    assert ended.code == 3
    assert "diverged at round 7" in ended.err
    assert "Traceback" not in ended.err
    assert "round 7: round lost" in ended.out
    ended = driftless("run", *words(*DIVERGING, "output=there"), "--json")
    assert ended.code == 3
    assert strict(ended.out)["status"] == "diverged"
    assert "diverged at round 7" in ended.err


@pytest.mark.parametrize("more", [[], ["patience=2"]], ids=["at the end", "stopped early"])
def test_a_run_whose_loss_grew_beyond_all_measure_says_so_and_exits_with_3(driftless, tmp_path, more):
    grown = ["batch_size=none", "weight_decay=1e7", "rounds=5", *more]
    ended = driftless("run", *words(*grown, "output=here"))
    assert ended.code == 3
    said = re.search(r"diverged: the training loss rose from 2\.37 \(round 1\) to .*Try a smaller local\.lr", ended.err)
    assert said
    assert "rose from" not in ended.out
    result = json.loads((tmp_path / "here" / "result.json").read_text())
    assert result["status"] == "diverged"
    assert result["reason"] in ended.err
    event = json.loads((tmp_path / "here" / "events.jsonl").read_text().splitlines()[-1])
    assert event == {"round": result["rounds"], "what": result["reason"], "clients": []}
    assert driftless("run", *words(*grown, "output=there"), "--quiet").code == 3


def test_the_values_in_effect_are_shown_before_a_run_and_when_it_is_resumed(driftless, killed):
    first = driftless("run", *words("algorithm=scaffold", "output=here")).err
    run, problem, memory = first.splitlines()
    assert run == (
        "scaffold (option=2, server_lr=1, size_adaptive=False); 8 rounds; cohort 5 of 20; "
        "local: 1 epoch of batches of 40, lr 0.1"
    )
    assert problem.startswith("digits: 20 clients, ")
    assert problem.endswith("; logistic, 650 parameters; weighted uniformly")
    assert re.fullmatch(r"up to .* in memory, 52 KB of it for the state of 20 clients, checkpoints up to .*", memory)
    assert driftless("resume", killed).err == first


def test_a_run_that_stops_early_says_why_and_exits_with_0(driftless):
    ended = driftless("run", *words("lr=1e-9", "rounds=20", "patience=2", "output=here"))
    assert ended.code == 0
    assert "stopped: no better test accuracy" in ended.out


# Resuming


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A run that was killed in its fifth round, and how it ends when it is not."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    start(whole, "algorithm=scaffold", callbacks=[AfterRound([5], lambda: shutil.copytree(whole, run))])
    return run


def test_resume_finishes_a_run_and_shows_its_result(driftless, killed):
    ended = driftless("resume", killed, "--json")
    assert ended.code == 0
    assert strict(ended.out)["rounds"] == 8
    assert_same_run(killed.with_name("whole"), killed)
    assert "has ended already" in refused(driftless("resume", killed))


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
def test_a_run_of_a_device_that_is_not_here_is_resumed_on_another_one(driftless, killed):
    config = killed / "config.toml"
    config.write_text(config.read_text().replace('device = "cpu"', 'device = "cuda:0"'))
    assert "driftless resume DIR --device cpu" in refused(driftless("resume", killed))
    ended = driftless("resume", killed, "--device", "cpu")
    assert ended.code == 0
    assert "device cuda:0 -> cpu: the continued run may differ in the last bits" in ended.err
    lost, whole = (StoredRun(run).history[-1]["test_loss"] for run in (killed, killed.with_name("whole")))
    assert lost == whole


def test_a_run_that_is_not_ended_is_not_run_again(driftless, killed):
    assert f"continue it with: driftless resume {killed}" in refused(driftless("run", *words(f"output={killed}")))


def test_an_interrupted_run_prints_the_command_that_continues_it(driftless, killed, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(ShowProgress, "on_round", lambda *_: signal.raise_signal(signal.SIGINT))
        ended = driftless("resume", killed)
    assert ended.code == 130
    told = re.search(r"continue with: driftless (resume .+)\n", ended.err)
    assert told
    assert driftless(*told.group(1).split()).code == 0
    assert_same_run(killed.with_name("whole"), killed)


def test_the_printed_command_works_for_a_folder_with_a_space(driftless, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(ShowProgress, "on_round", lambda *_: signal.raise_signal(signal.SIGINT))
        ended = driftless("run", *words("output=my run", "rounds=3"))
    assert "driftless resume 'my run'" in ended.err


def test_an_interrupt_before_the_first_round_ends_with_130_and_without_a_traceback(driftless, monkeypatch, tmp_path):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("driftless.config.build.federation_of", interrupted)
    ended = driftless("run", *words("output=here"))
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["config.toml", "result.json"])
def test_a_run_directory_whose_files_are_no_longer_whole_is_one_message(driftless: Command, killed: Path, file: str):
    (killed / file).write_text("{ half")
    assert file in refused(driftless("resume", killed))


# Reports


def test_what_cannot_be_watched_is_one_line_and_nothing_is_served(driftless: Command, tmp_path: Path):
    assert "there is no folder 'nowhere' to watch" in refused(driftless("watch", "nowhere", "--port", "0"))
    write_run(tmp_path / "run", [], accuracies([0.5]))
    assert "target" in refused(driftless("watch", "run", "--port", "0", "--target", "90"))
    beyond = driftless("watch", "run", "--port", "65536")
    assert (beyond.code, "0<=x<=65535" in beyond.err) == (2, True)


def test_a_report_of_a_folder_of_runs_is_written_next_to_them(driftless: Command, tmp_path: Path):
    write_run(tmp_path / "runs" / "a", ["algorithm=adabest"], accuracies([0.1, 0.2]), federation=None)
    write_run(tmp_path / "runs" / "b", [], accuracies([0.1, 0.2]), federation=None)
    assert "wrote runs/report.html (2 runs)" in driftless("report", "runs").out
    assert "wrote runs/report.html" in driftless("report", "runs").out  # renewed
    (tmp_path / "mine.html").write_text("mine", encoding="utf-8")
    assert "replace it: --overwrite" in refused(driftless("report", "runs", "-o", "mine.html"))
    assert "6 figures in figures" in driftless("report", "runs", "--figures", "figures").out
    assert len(list((tmp_path / "figures").iterdir())) == 6
    assert "there is no run at or below 'nowhere'" in refused(driftless("report", "nowhere"))


# Papers


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["adabst"], "did you mean 'adabest'"), (["adabest/figure-11"], "did you mean 'figure-1'"),
     (["adabest/remarks", "--scale", "tiny"], "'smoke', 'small', 'paper'")],
)  # fmt: skip
def test_a_mistake_about_papers_is_one_message(driftless: Command, arguments: list[str], said: str):
    assert said in refused(driftless("reproduce", *arguments))


def test_reproduce_shows_rules_numbers_and_verdicts(driftless: Command, tmp_path: Path):
    ended = driftless("reproduce", "adabest/figure-4", "--scale", "smoke")
    assert ended.code == 0
    assert ended.out.index("rule") < ended.out.index("verdict"), "the rules come first"
    assert "AdaBest" in ended.out
    assert (tmp_path / "runs/reproduce/adabest/figure-4/smoke/figure.png").exists()
    stored = strict(driftless("reproduce", "adabest/figure-4", "--scale", "smoke", "--json").out)
    assert [claim["verdict"] for claim in stored["claims"]] == ["not tested"] * len(stored["claims"])


def test_a_plan_runs_nothing(driftless: Command, tmp_path: Path):
    ended = driftless("reproduce", "adabest/table-2-10-percent", "--scale", "paper", "--plan")
    assert "216,000 rounds" in ended.out
    assert "run.cohort" in ended.out
    assert "emnist-l, cifar10, cifar100" in ended.out
    assert not list(tmp_path.iterdir())


def test_list_papers_shows_every_experiment_with_its_state(driftless: Command):
    shown = driftless("list", "papers").out
    for paper in PAPERS.values():
        assert paper.name in shown
        for one in paper.experiments:
            assert f"{paper.name}/{one.name}" in shown
    assert "supported" in shown


def test_the_package_is_a_program():
    """As a real process: nothing on stdout but results, the message of a mistake on stderr."""
    command = [sys.executable, "-m", "driftless", "run", "roundz=3"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: unknown key 'roundz'; did you mean 'rounds'?")
    assert "Traceback" not in ended.stderr
