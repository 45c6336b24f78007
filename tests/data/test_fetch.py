from __future__ import annotations

import gzip
import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from driftless.data import fetch
from driftless.data.fetch import RemoteFile, find, obtain
from driftless.errors import InputError

CONTENT = np.random.default_rng(0).bytes(300_000)  # several chunks
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()


pytestmark = pytest.mark.usefixtures("folders")


class Server(ThreadingHTTPServer):
    """Sends CONTENT; `sent` says how much of it goes out in each answer, the last entry for all further ones."""

    sent: list[int]
    requests: list[str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Answer(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        if self.path != "/file.bin":
            self.send_error(404)
            return
        sent = self.server.sent.pop(0) if len(self.server.sent) > 1 else self.server.sent[0]
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:sent])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Answer) as server:
        server.sent, server.requests = [len(CONTENT)], []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def everything_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_files_are_searched_in_the_users_folders_then_the_systems_then_the_cache(folders: Path):
    assert find("set", "a", "b") is None
    places = [folders / place for place in ("cache/set/a", "system/set/a", "data/a", "data/set/b", "data/set/a")]
    for place in places:  # each comes before those before it
        assert put(place) == find("set", "a", "b")


def test_a_folder_in_place_of_a_file_is_not_found(folders: Path):
    (folders / "data" / "a").mkdir()
    assert find("set", "a") is None


def test_without_the_variable_only_system_and_cache_are_searched(folders: Path, monkeypatch: pytest.MonkeyPatch):
    put(folders / "data" / "a")
    monkeypatch.delenv("DRIFTLESS_DATA")
    assert find("set", "a") is None


def test_a_data_folder_that_does_not_exist_is_an_error(folders: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRIFTLESS_DATA", str(folders / "nowhere"))
    with pytest.raises(InputError, match=r"DRIFTLESS_DATA is '.*nowhere', and there is no such folder; set it to"):
        find("set", "a")


def test_the_cache_is_the_platforms_unless_the_variable_names_another(folders: Path, monkeypatch: pytest.MonkeyPatch):
    assert fetch.cache_folder() == folders / "cache"
    monkeypatch.delenv("DRIFTLESS_CACHE")
    assert fetch.cache_folder().name == "driftless"
    assert fetch.cache_folder().is_absolute()


def test_a_file_is_downloaded_once_into_the_cache(folders: Path, server: Server, capfd: pytest.CaptureFixture[str]):
    file = RemoteFile("file.bin", f"{server.address}file.bin", checksum=f"sha256:{SHA256}")
    path = obtain("set", file)
    assert path == folders / "cache" / "set" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert obtain("set", file) == path
    assert server.requests == ["/file.bin"]
    assert everything_in(folders / "cache") == ["checked.json", "file.bin"]
    written = capfd.readouterr()
    assert written.out == ""
    assert f"downloading {server.address}file.bin" in written.err


def test_a_file_that_is_here_is_not_downloaded(folders: Path, server: Server):
    here = put(folders / "data" / "file.bin")
    assert obtain("set", RemoteFile("file.bin", f"{server.address}file.bin", checksum=f"md5:{MD5}")) == here
    assert server.requests == []


def test_of_several_forms_the_one_that_is_here_is_taken_else_the_one_that_can_be_downloaded(
    folders: Path, server: Server
):
    forms = (RemoteFile("other.bin", None), RemoteFile("file.bin", f"{server.address}file.bin", checksum=f"md5:{MD5}"))
    assert obtain("set", *forms).name == "file.bin"
    put(folders / "data" / "other.bin")
    assert obtain("set", *forms).name == "other.bin"


def test_a_body_that_breaks_off_is_never_used_and_a_second_try_succeeds(folders: Path, server: Server):
    server.sent = [len(CONTENT) // 2, len(CONTENT)]
    file = RemoteFile("file.bin", f"{server.address}file.bin")  # no sum: the announced length must do
    with pytest.raises(InputError, match=r"file.bin, which is not here. .*broke off before the end.*Put it into"):
        obtain("set", file)
    assert everything_in(folders) == []
    assert obtain("set", file).read_bytes() == CONTENT


def test_a_download_with_a_wrong_sum_is_thrown_away(folders: Path, server: Server):
    file = RemoteFile("file.bin", f"{server.address}file.bin", checksum="sha256:" + "0" * 64)
    with pytest.raises(InputError, match=f"expected sha256:{'0' * 64}, found sha256:{SHA256}; it was thrown away"):
        obtain("set", file)
    assert everything_in(folders) == []


def test_a_file_that_the_server_does_not_have_names_the_address_and_where_to_put_it(folders: Path, server: Server):
    file = RemoteFile("gone.bin", f"{server.address}gone.bin", advice="ask a friend")
    with pytest.raises(InputError) as caught:
        obtain("set", file)
    for part in ("gone.bin", f"{server.address}gone.bin", "the server answered 404 Not Found", "ask a friend"):
        assert part in str(caught.value)
    assert f"DRIFTLESS_DATA (now {folders / 'data'})" in str(caught.value)
    assert str(folders / "cache" / "set") in str(caught.value)
    assert everything_in(folders) == []


def test_a_refused_connection_is_reported_in_words(server: Server):
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError, match=r"could not be downloaded from http://127.0.0.1:\d+/file.bin: no connection"):
        obtain("set", RemoteFile("file.bin", f"{server.address}file.bin"))


@pytest.mark.parametrize(("value", "downloads"), [("1", False), ("yes", False), ("0", True), ("", True)])
def test_offline_nothing_is_downloaded(value: str, downloads: bool, server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRIFTLESS_OFFLINE", value)
    file = RemoteFile("file.bin", f"{server.address}file.bin", checksum=f"md5:{MD5}")
    if downloads:
        assert obtain("set", file).is_file()
    else:
        with pytest.raises(InputError, match=r"DRIFTLESS_OFFLINE is set, so it is not downloaded from http"):
            obtain("set", file)
        assert server.requests == []


def test_a_file_that_cannot_be_downloaded_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DRIFTLESS_DATA")
    with pytest.raises(InputError, match=r"needs a.gz or b.gz, which is not here.*set DRIFTLESS_DATA to it.*Or: buy b"):
        obtain("set", RemoteFile("a.gz", None), RemoteFile("b.gz", None, advice="buy b"))


def test_a_found_file_with_a_wrong_sum_names_both_sums_and_the_remedy(folders: Path):
    path = put(folders / "data" / "file.bin", b"something else")
    with pytest.raises(InputError) as caught:
        obtain("set", RemoteFile("file.bin", "http://127.0.0.1:1/file.bin", checksum=f"md5:{MD5}"))
    found = hashlib.md5(b"something else").hexdigest()
    for part in (str(path), f"expected md5:{MD5}, found md5:{found}", "Delete it and download it again"):
        assert part in str(caught.value)
    assert path.is_file()  # the user's files are the user's


def test_a_sum_is_computed_once_for_a_file_that_does_not_change(folders: Path):
    path = put(folders / "data" / "file.bin")
    file = RemoteFile("file.bin", None, checksum=f"sha256:{SHA256}")
    obtain("set", file)
    before = path.stat()
    path.write_bytes(bytes(len(CONTENT)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    obtain("set", file)  # same size and time: believed
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(InputError, match="is not the published file"):
        obtain("set", file)


@pytest.mark.parametrize("spoilt", [b"", b"[1, 2]", b'{"a": 3}', b"\xff"])
def test_a_damaged_store_of_sums_is_ignored(spoilt: bytes, folders: Path):
    put(folders / "cache" / "checked.json", spoilt)
    path = put(folders / "data" / "file.bin")
    assert obtain("set", RemoteFile("file.bin", None, checksum=f"sha256:{SHA256}")) == path
    assert SHA256 in (folders / "cache" / "checked.json").read_text()


def test_the_sum_of_the_content_holds_for_every_compression_of_it(folders: Path):
    file = RemoteFile("file.gz", None, checksum=f"unpacked-sha256:{SHA256}")
    for content in (gzip.compress(CONTENT, 1), gzip.compress(CONTENT, 9, mtime=7), CONTENT):
        assert put(folders / "data" / "file.gz", content) == obtain("set", file)
    for content, complaint in (
        (gzip.compress(CONTENT[1:]), "found unpacked-sha256:"),
        (gzip.compress(CONTENT)[:-100], "found a damaged gzip file"),
    ):
        put(folders / "data" / "file.gz", content)
        with pytest.raises(InputError, match=complaint):
            obtain("set", file)


def test_without_a_cache_that_can_be_written_files_are_checked_but_not_downloaded(
    folders: Path, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DRIFTLESS_CACHE", str(put(folders / "occupied") / "cache"))
    file = RemoteFile("file.bin", f"{server.address}file.bin", checksum=f"sha256:{SHA256}")
    with pytest.raises(InputError, match=r"cannot be written \(.*\); make room there, or set DRIFTLESS_CACHE"):
        obtain("set", file)
    path = put(folders / "data" / "file.bin")
    assert obtain("set", file) == path
    put(path, b"wrong")
    with pytest.raises(InputError, match="is not the published file"):
        obtain("set", file)


def test_what_is_interrupted_leaves_nothing_and_spoils_nothing(folders: Path):
    path = put(folders / "file", b"old")

    def interrupted() -> None:
        with fetch.replacing(path) as temporary:
            temporary.write_bytes(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert everything_in(folders) == ["file"]
