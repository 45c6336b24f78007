from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from PIL import Image

from driftless.errors import InputError
from driftless.report.figures import WIDTH, write_figures
from driftless.runs.directory import StoredRun
from report.runs import Folder, accuracies, write_run


def test_every_figure_that_the_runs_have_numbers_for_is_written(comparison: list[StoredRun], tmp_path: Path):
    files = write_figures(comparison, tmp_path, ["png"])
    names = ["test_accuracy-rounds", "test_accuracy-megabytes", "norm_x", "cosine", "labels"]
    assert [file.name for file in files] == [f"{name}.png" for name in names]
    for file in files:
        with Image.open(file) as image:
            assert image.width == round(WIDTH * 300)


def test_the_same_runs_give_the_same_bytes_in_every_format_whatever_the_users_own_style(tmp_path: Path):
    rows = [{"round": t, "train_loss": 1 / t} for t in (1, 2, 3)]
    runs = [write_run(tmp_path / f"{seed}", [f"run.seed={seed}"], rows, federation=None) for seed in (0, 1)]
    pdf, svg, png = first = write_figures(runs, tmp_path / "a")
    with matplotlib.rc_context({"font.size": 20, "axes.grid": False, "savefig.dpi": 30}):
        second = write_figures(runs, tmp_path / "b")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert [file.name for file in first] == [f"train_loss-rounds.{suffix}" for suffix in ("pdf", "svg", "png")]
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert b"/Type3" not in pdf.read_bytes()
    assert ElementTree.fromstring(svg.read_bytes()).tag.endswith("svg")
    with Image.open(png) as image:
        assert image.format == "PNG"


def test_figures_are_not_overwritten_silently(folder: Folder, tmp_path: Path):
    runs = [folder("fedavg", 0, [0.5, 0.6], federation=None)]
    (first, *_) = write_figures(runs, tmp_path / "figures", ["png"])
    first.write_bytes(b"mine")
    with pytest.raises(InputError, match=r"test_accuracy-rounds\.png' exists; give another folder"):
        write_figures(runs, tmp_path / "figures", ["png"])
    assert first.read_bytes() == b"mine"
    write_figures(runs, tmp_path / "figures", ["png"], overwrite=True)
    assert first.read_bytes() != b"mine"


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        (["pdf", "jpeg"], "format of a figure must be one of 'pdf', 'svg', 'png', got 'jpeg'"),
        ("pdf", r"formats must be a list such as \['pdf', 'png'\], got 'pdf'"),
        ([], r"formats must be a list .*, got \[\]"),
    ],
)
def test_formats_that_cannot_be_written_are_refused(folder: Folder, tmp_path: Path, formats: list[str], message: str):
    with pytest.raises(InputError, match=message):
        write_figures([folder("fedavg", 0, [0.5])], tmp_path / "figures", formats)
    assert not (tmp_path / "figures").exists()


def test_percentiles_over_clients_have_a_figure_of_their_own(tmp_path: Path):
    percentiles = {f"test_p{p}": p / 100 for p in (5, 25, 50, 75, 95)}
    runs = [write_run(tmp_path / name, [f"algorithm={name}"], accuracies([0.1, 0.2], **percentiles), federation=None)
            for name in ("fedavg", "ghbm")]  # fmt: skip
    files = write_figures(runs, tmp_path / "figures", ["png"])
    assert "test_percentiles.png" in [file.name for file in files]


def test_runs_with_hardly_any_number_have_the_figures_they_have_numbers_for(tmp_path: Path):
    run = write_run(tmp_path / "a", ["data=linear-regression", "model=linear"], [{"round": 1, "train_loss": 2.0}],
                    federation=None)  # fmt: skip
    assert [file.name for file in write_figures([run], tmp_path / "f", ["png"])] == ["train_loss-rounds.png"]


def test_a_diverging_run_is_drawn_on_a_logarithmic_axis(tmp_path: Path):
    rows = [{"round": t, "train_loss": 10.0**t, "norm_x": float("inf")} for t in range(1, 30)]
    runs = [
        write_run(tmp_path / f"{s}", [f"run.seed={s}", "run.rounds=99"], rows[: 20 + s], "diverged", federation=None)
        for s in (0, 1)
    ]
    assert write_figures(runs, tmp_path / "f", ["png"])[0].exists()
