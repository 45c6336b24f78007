from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from driftless import InputError
from driftless.engine.fault_trace import Trace, read_trace


def written(folder: Path, name: str, text: str | bytes) -> str:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def test_a_csv_and_a_jsonl_file_say_the_same(tmp_path: Path):
    lines = [(3, 7, "dropout"), (1, 2, "unavailable"), (3, 1, "dropout"), (3, 0, "unavailable")]
    table = "\ufeffround, client, fault\r\n" + "".join(f"{t}, {i},{fault}\r\n" for t, i, fault in lines) + "\r\n"
    objects = "".join(f'{{"client": {i}, "round": {t}, "fault": "{fault}"}}\n\n' for t, i, fault in lines)
    for name, text in (("a.csv", table), ("a.jsonl", objects)):
        trace = read_trace(written(tmp_path, name, text), 8)
        assert trace.having(3, "dropout").tolist() == [1, 7]
        assert trace.having(3, "unavailable").tolist() == [0]
        assert trace.having(1, "unavailable").tolist() == [2]
        assert trace.having(1, "dropout").tolist() == trace.having(2, "dropout").tolist() == []
        assert trace.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_without_a_file_nobody_is_lost():
    assert read_trace(None, 8) == Trace()
    assert Trace().having(1, "dropout").tolist() == []


CSV = "round,client,fault\n"


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.csv", CSV + "1,2,dropout\n0,2,dropout\n", "line 3 of the trace .* has the round 0;"),
        ("a.csv", CSV + "1,8,dropout\n", r"line 2 .* names client 8, and the 8 clients are 0\.\.7"),
        ("a.csv", CSV + "1,-1,dropout\n", "line 2 .* has '-1' for the client"),
        ("a.csv", CSV + "1,2,dropped\n", "line 2 .* has the fault 'dropped'"),
        ("a.csv", CSV + "1,2\n", "line 2 .* has 2 values"),
        ("a.csv", CSV + "1.0,2,dropout\n", r"line 2 .* has '1\.0' for the round"),
        ("a.csv", CSV + "1,2,dropout\n\n1,2,unavailable\n", "line 4 .* names client 2 in round 1 again"),
        ("a.csv", "1,2,dropout\n", "its header is round,client,fault"),
        ("a.csv", "", "its header is round,client,fault"),
        ("a.csv", b"\xff\xfe\x00", "not text in UTF-8"),
        ("a.jsonl", '{"round": 1, "client": 2, "fault": "dropout"}\n{"round": 1\n', "line 2 .* is not JSON"),
        ("a.jsonl", '{"round": true, "client": 2, "fault": "dropout"}', "line 1 .* has True for the round"),
        ("a.jsonl", '{"round": 1, "client": 2}', "line 1 .* is .*; a line has a round"),
        ("a.jsonl", "[1, 2, 3]", "line 1 .* a line has a round"),
        ("a.jsonl", '{"round": 1, "client": 2, "fault": ["dropout"]}', r"has the fault \['dropout'\]"),
        ("a.txt", CSV, "ends with .csv or .jsonl"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, name: str, text: str | bytes, complaint: str):
    with pytest.raises(InputError, match=complaint):
        read_trace(written(tmp_path, name, text), 8)


def test_a_file_that_is_not_there_or_is_a_folder_is_an_error(tmp_path: Path):
    with pytest.raises(InputError, match="there is no trace"):
        read_trace(str(tmp_path / "none.csv"), 8)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="cannot be read: it is a folder"):
        read_trace(str(tmp_path / "folder.csv"), 8)
