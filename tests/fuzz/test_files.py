"""Files of a run, a comparison and a search whose bytes were changed; then resume, report and list."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.fuzzing import assert_explained, empty_folder, play, share

SETTINGS = ["data.clients=20", "model=logistic", "cohort=2", "rounds=3", "workers=1", "checkpoint_every=1"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, one that was killed after its second round, a comparison, a search."""
    folder = tmp_path_factory.mktemp("whole")
    assert play(folder, ["run", *SETTINGS, "algorithm=scaffold", "output=finished"]).code == 0
    assert play(folder, ["compare", "fedavg", *SETTINGS, "seeds=2", "output=comparison", "--jobs", "1"]).code == 0
    assert play(folder, ["tune", *SETTINGS, "trials=1", "output=search", "--jobs", "1"]).code == 0
    shutil.copytree(folder / "finished", folder / "killed")
    (folder / "killed" / "result.json").unlink()
    return folder


def damaged(content: bytes, kind: str, place: float, noise: bytes) -> bytes:
    at = int(place * len(content))
    return {
        "cut off": content[:at],
        "overwritten": content[:at] + noise + content[at + len(noise) :],
        "inserted": content[:at] + noise + content[at:],
        "removed": content[:at] + content[at + 1 + len(noise) :],
        "doubled": content[:at] + content,
        "replaced": noise,
    }[kind]


KINDS = ["cut off", "overwritten", "inserted", "removed", "doubled", "replaced"]
JSON = [b"null", b"[]", b"{}", b"0", b'""', b"-1", b"1e999", b"true", b"\n", b"\xff", b"{", b"}", b'"', b"NaN", b"\x00"]
noises = st.sampled_from(JSON) | st.binary(max_size=5)
damages = st.tuples(st.sampled_from(KINDS), st.floats(0, 1), noises)


@share(0.06)
@given(
    st.sampled_from(["finished", "killed", "killed", "comparison", "search"]),
    st.floats(0, 0.999),
    damages,
    st.sampled_from(["resume", "resume", "report"]),
)
def test_a_damaged_file_is_survived_or_named(whole: Path, which: str, number: float, damage, command: str):
    with empty_folder() as folder:
        run = shutil.copytree(whole / which, folder / which)
        files = sorted(file for file in run.rglob("*") if file.is_file())
        file = files[int(number * len(files))]
        file.write_bytes(damaged(file.read_bytes(), *damage))
        jobs = ["--jobs", "1"] if command == "resume" else []
        assert_explained(folder, [command, which, *jobs])
