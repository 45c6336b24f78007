from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from PIL import Image

from driftless.errors import InputError
from driftless.report.figures import WIDTH, make, plan, write_figures
from driftless.report.summary import summarise
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


def test_own_metrics_have_figures_of_their_percentiles_too(tmp_path: Path):
    percentiles = {f"test_f1_p{p}": p / 100 for p in (5, 25, 50, 75, 95)} | {"test_p5": 0.5}
    run = write_run(tmp_path / "a", [], accuracies([0.1, 0.2], **percentiles), federation=None)
    names = [file.stem for file in write_figures([run], tmp_path / "figures", ["png"])]
    assert "test_f1_percentiles" in names
    assert "test_percentiles" not in names  # one percentile is not enough for it


def test_a_sweep_has_a_heat_map_and_a_figure_for_each_cell(folder: Folder, tmp_path: Path):
    runs = [folder(name, 0, [0.5, 0.6], f"data.clients={clients}", federation=None)
            for clients in (10, 20) for name in ("fedavg", "ghbm")]  # fmt: skip
    names = [file.stem for file in write_figures(runs, tmp_path / "figures", ["png"])]
    assert names[2:5] == ["test_accuracy-cells", "test_accuracy-clients=10", "test_accuracy-clients=20"]


def test_the_legend_is_in_the_order_of_the_final_values_and_the_axis_where_the_curves_are(folder: Folder):
    runs = [folder(name, 0, [0.1, *[end - 0.05, end] * 10]) for name, end in (("fedavg", 0.8), ("ghbm", 0.9))]
    drawing = plan(summarise(runs))[0]
    axes = make(drawing).axes[0]
    assert axes.get_legend_handles_labels()[1] == ["ghbm", "fedavg"]
    assert axes.get_ylim() == pytest.approx((0.75 - 0.05 * 0.15, 0.9 + 0.05 * 0.15))
    assert axes.get_title(loc="left") == "not in view: fedavg (down to 0.1), ghbm (down to 0.1)"
