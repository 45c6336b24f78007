from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from driftless.errors import InputError
from driftless.report import live
from driftless.report.live import ADDRESS, LiveReport, Server, host_name, open_server
from report.runs import Folder, accuracies, write_run


@contextmanager
def serving(*folders: Path, **how: Any) -> Generator[Server]:
    with open_server(folders, port=0, **how) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def get(server: Server, path: str, host: str = "localhost", method: str = "GET") -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection(ADDRESS, server.port, timeout=30)
    connection.request(method, path, headers={"Host": host})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content, dict(answer.headers)


def test_the_page_asks_for_nothing_but_what_this_server_has_by_relative_names(folder: Folder):
    folder("fedavg", 0, [0.5, 0.6])
    with serving(folder.path) as server:
        status, page, headers = get(server, "/")
        assert status == 200
        assert headers["Cache-Control"] == "no-store"
        assert '<script src="plotly.js"></script>' in page
        assert "http://" not in page.replace("http://www.w3.org", "")
        assert len(page) < 300_000
        assert "plotly.js v" in get(server, "/plotly.js")[1][:300]
        assert get(server, "/config.toml")[0] == 404
        assert get(server, "/../run-0/config.toml")[0] == 404
        assert get(server, "/", method="POST")[0] == 501


def test_the_status_has_the_version_of_the_page_and_the_rounds_of_each_run(folder: Folder):
    run = folder("fedavg", 0, [0.5, 0.6], "run.rounds=9", status=None)
    with serving(folder.path) as server:
        status = json.loads(get(server, "/status.json")[1])
        assert f'data-version="{status["version"]}"' in get(server, "/")[1]
        assert status["runs"] == [{"folder": str(run.path), "done": 2, "total": 9, "status": "going on"}]
        assert (status["done"], status["total"]) == (2, 9)


def test_only_this_machine_is_listened_to(folder: Folder):
    with serving(folder.path if folder.path.exists() else folder.path.parent) as server:
        assert server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1:80", "[::1]:8642", "LOCALHOST"])
def test_every_name_of_this_machine_is_served_with_any_port_as_a_tunnel_has_one(host: str, tmp_path: Path):
    with serving(tmp_path) as server:
        assert get(server, "/status.json", host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8642", "localhost.evil.example", "127.0.0.1.evil", "[::1"]
)
def test_a_page_elsewhere_that_was_led_to_this_machine_gets_nothing(host: str, tmp_path: Path):
    with serving(tmp_path) as server:
        for path in ("/", "/status.json", "/plotly.js"):
            assert get(server, path, host)[0] == 403
    assert host_name("") is None


def test_a_folder_without_a_run_has_a_page_that_says_so_and_later_the_report(tmp_path: Path):
    with serving(tmp_path) as server:
        assert "No run has begun yet." in get(server, "/")[1]
        write_run(tmp_path / "a", ["run.rounds=4"], [], status=None)
        assert "No round has been recorded yet." in get(server, "/")[1]
        write_run(tmp_path / "b", ["algorithm=scaffold"], accuracies([0.5]))
        assert "fedavg and scaffold on digits" in get(server, "/")[1]
        shutil.rmtree(tmp_path / "a")
        assert "scaffold on digits" in get(server, "/")[1]
        shutil.rmtree(tmp_path / "b")
        assert "No run has begun yet." in get(server, "/")[1]


def test_the_page_is_made_once_for_each_version_and_never_twice_at_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    folder("fedavg", 0, [0.5])
    report = LiveReport([folder.path])
    at_once, most, made = 0, 0, 0
    summarise = live.summarise

    def counted(*given: Any) -> Any:
        nonlocal at_once, most, made
        at_once, made = at_once + 1, made + 1
        most = max(most, at_once)
        try:
            return summarise(*given)
        finally:
            at_once -= 1

    monkeypatch.setattr(live, "summarise", counted)
    with ThreadPoolExecutor(8) as pool:
        pages = list(pool.map(lambda _: report.page(), range(16)))
    assert (made, most, len(set(pages))) == (1, 1, 1)
    folder("scaffold", 0, [0.5])
    assert report.page() != pages[0]
    assert made == 2


def test_a_page_that_cannot_be_made_says_why_and_the_server_goes_on(folder: Folder):
    run = folder("fedavg", 0, [0.5, 0.6])
    whole = (run.path / "metrics.jsonl").read_bytes()
    with serving(folder.path) as server:
        (run.path / "metrics.jsonl").write_bytes(b"{broken\n" + whole)
        assert "line 1 of &#39;" in get(server, "/")[1]
        assert "cannot be read" in json.loads(get(server, "/status.json")[1])["text"]
        (run.path / "metrics.jsonl").write_bytes(whole)
        assert "fedavg on digits" in get(server, "/")[1]


def test_a_bug_in_making_the_page_is_said_in_the_page(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder("fedavg", 0, [0.5])

    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(live, "context", fail)
    assert "The page could not be made: ZeroDivisionError" in LiveReport([folder.path]).page()
    assert "Traceback" in capsys.readouterr().err


def test_a_port_in_use_is_an_error_that_names_a_free_one(tmp_path: Path):
    with open_server([tmp_path], port=0) as server:
        with pytest.raises(InputError, match=rf"port {server.port} is in use; choose another one: --port \d+") as error:
            open_server([tmp_path], port=server.port)
        suggested = int(str(error.value).rpartition(" ")[2])
        with socket.socket() as trial:
            trial.bind((ADDRESS, suggested))


def test_what_cannot_be_watched_is_refused_before_anything_is_served(folder: Folder, tmp_path: Path):
    with pytest.raises(InputError, match=r"there is no folder '.*missing' to watch"):
        open_server([tmp_path / "missing"], port=0)
    folder("fedavg", 0, [0.5])
    with pytest.raises(InputError, match="target"):
        open_server([folder.path], port=0, target=90.0)
