from __future__ import annotations

from driftless.report import line_styles
from driftless.report.grid import Grid, grid_of
from driftless.report.summary import summarise
from driftless.runs.directory import StoredRun, find_runs
from report.runs import Folder

ALPHAS = (0.1, 1.0)


def swept(folder: Folder, names: tuple[str, ...] = ("fedavg", "scaffold")) -> None:
    for alpha in ALPHAS:
        for name in names:
            folder(name, 0, [0.5, 0.6], "data.partition=dirichlet", f"data.alpha={alpha}")


def runs_of(folder: Folder) -> list[StoredRun]:
    return find_runs([folder.path])


def test_the_curves_of_a_sweep_are_placed_by_algorithm_and_cell(folder: Folder):
    swept(folder)
    grid = grid_of(summarise(runs_of(folder)))
    assert grid == Grid(
        ["data.alpha"], ["alpha=0.1", "alpha=1.0"], [["0.1"], ["1.0"]], ["fedavg", "scaffold"], [[0, 2], [1, 3]]
    )


def test_a_cell_without_a_run_of_an_algorithm_has_none(folder: Folder):
    swept(folder)
    folder("ghbm", 0, [0.5], "data.partition=dirichlet", "data.alpha=1.0", "run.rounds=2")
    grid = grid_of(summarise(runs_of(folder)))
    assert grid is not None
    assert (grid.names[2], grid.curves[2]) == ("ghbm", [None, 4])


def test_without_a_sweep_there_is_no_grid(folder: Folder):
    runs = [folder(name, 0, [0.5]) for name in ("fedavg", "scaffold")]
    assert grid_of(summarise(runs)) is None


def test_in_a_sweep_the_colour_is_the_algorithms_and_the_dash_the_cells(folder: Folder):
    swept(folder)
    summary = summarise(runs_of(folder))
    styles = line_styles.styles(summary.curves, grid_of(summary))
    assert [style.color for style in styles] == [0, 1, 0, 1]
    assert [style.dash for style in styles] == [line_styles.DASHES[cell] for cell in (0, 0, 1, 1)]


def test_with_more_cells_than_dashes_every_curve_still_has_a_style_of_its_own(folder: Folder):
    for number in range(1, len(line_styles.DASHES) + 2):
        for name in ("fedavg", "scaffold"):
            folder(name, 0, [0.5], f"data.clients={10 * number}")
    summary = summarise(runs_of(folder))
    styles = line_styles.styles(summary.curves, grid_of(summary))
    assert len(set(styles)) == len(styles)
