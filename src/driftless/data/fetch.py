"""Finds, checks and downloads the files of data sets; no other module does.

DRIFTLESS_DATA    the user's folder of data files; it is only read
DRIFTLESS_CACHE   the folder for downloads and decoded images, instead of the platform's cache folder
DRIFTLESS_OFFLINE 1: never download
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from driftless.errors import InputError

SYSTEM = Path("/usr/share/datasets")
"""Each of Debian's packages of data sets has a folder here."""
CHECKED = "checked.json"
"""Checksums that were verified: {path: [size, modification time, sum]}."""
TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class RemoteFile:
    """A published file.

    The checksum is `sha256:...`, `md5:...` or, for gzip files that circulate in several compressions,
    `unpacked-sha256:...` of the decompressed content. It is given only where it is known for certain.
    """

    name: str  # also its name in DRIFTLESS_DATA
    url: str | None = None  # None: it cannot be downloaded from here
    checksum: str | None = None
    advice: str = ""  # how else to get it


def find(dataset: str, *names: str) -> Path | None:
    """The first of these files that exists in the user's folder, in the system's or in the cache."""
    return next((path for folder in _folders(dataset) for name in names if (path := folder / name).is_file()), None)


def find_folder(dataset: str, *names: str) -> Path | None:
    """The same for folders, such as one of images."""
    return next((path for folder in _folders(dataset) for name in names if (path := folder / name).is_dir()), None)


def obtain(dataset: str, *files: RemoteFile) -> Path:
    """The first of these files that is found, else the first that can be downloaded; its checksum is verified.

    Several files are alternatives: the same data under other names or in other formats.
    """
    for folder in _folders(dataset):
        for file in files:
            if (path := folder / file.name).is_file():
                _check(path, file, dataset)
                return path
    file = next((file for file in files if file.url), None)
    if file is None:
        raise _missing(dataset, files, "")
    if os.environ.get("DRIFTLESS_OFFLINE", "0") not in ("", "0"):
        raise _missing(dataset, [file], f" DRIFTLESS_OFFLINE is set, so it is not downloaded from {file.url}.")
    return _download(dataset, file)


def are_here(dataset: str, *parts: Sequence[RemoteFile]) -> bool:
    """Whether every part of a data set is found; a part is a sequence of alternative files."""
    return all(find(dataset, *[file.name for file in alternatives]) for alternatives in parts)


def cache_folder() -> Path:
    given = os.environ.get("DRIFTLESS_CACHE")
    if given:
        return Path(given).expanduser().absolute()
    import pooch

    return Path(pooch.os_cache("driftless")).expanduser()


@contextlib.contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary file to write, renamed to `path` if no exception was raised."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        yield Path(name)
        os.fsync(handle)
        os.chmod(name, 0o644)  # mkstemp restricts it to the owner, but a cache may be shared
        os.replace(name, path)
    finally:
        os.close(handle)
        Path(name).unlink(missing_ok=True)


def not_writable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"{path} cannot be written ({error.strerror or error}); "
        "make room there, or set DRIFTLESS_CACHE to a folder that can be written."
    )


def _folders(dataset: str) -> list[Path]:
    """The folders to search. One with the data set's name comes first: several data sets use the same file names."""
    folders = [SYSTEM / dataset, cache_folder() / dataset]
    given = os.environ.get("DRIFTLESS_DATA")
    if not given:
        return folders
    data = Path(given).expanduser().absolute()
    if not data.is_dir():
        raise InputError(
            f"DRIFTLESS_DATA is '{given}', and there is no such folder; "
            "set it to the folder that has your files, or unset it."
        )
    return [data / dataset, data, *folders]


def _missing(dataset: str, files: Sequence[RemoteFile], reason: str) -> InputError:
    names = " or ".join(file.name for file in files)
    return InputError(f"data set '{dataset}' needs {names}, which is not here.{reason} {_remedy(dataset, files)}")


def _remedy(dataset: str, files: Sequence[RemoteFile]) -> str:
    """Where to put the file."""
    advice = "".join(f" Or: {file.advice}." for file in files if file.advice)
    data = os.environ.get("DRIFTLESS_DATA")
    folder = f"DRIFTLESS_DATA (now {data})" if data else "a folder and set DRIFTLESS_DATA to it"
    return f"Put it into {folder}, or into {cache_folder() / dataset}.{advice}"


# --- checksums ---


def _check(path: Path, file: RemoteFile, dataset: str) -> None:
    """Raise unless a found file is the published one; verified checksums are stored, so this is done once per file."""
    if file.checksum is None or _stored_sum(path) == file.checksum:
        return
    found = _sum_of(path, file.checksum)
    if found != file.checksum:
        again = "download it again" if file.url else file.advice or "get it again"
        raise InputError(
            f"{path} is not the published file of data set '{dataset}': expected {file.checksum}, found {found}. "
            f"Delete it and {again}; or, if it belongs to another data set, put the right one into "
            f"the folder '{dataset}' of DRIFTLESS_DATA, which is searched first."
        )
    _store_sum(path, file.checksum)


def _sum_of(path: Path, like: str) -> str:
    """The checksum of a file, of the same kind as `like`."""
    kind = like.partition(":")[0]
    algorithm = kind.removeprefix("unpacked-")
    with open(path, "rb") as file:
        packed = algorithm != kind and file.read(2) == GZIP_MAGIC
        file.seek(0)
        try:
            with gzip.open(file) if packed else file as content:
                return f"{kind}:{hashlib.file_digest(content, algorithm).hexdigest()}"
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            return f"a damaged gzip file ({error})"


def _stored_sum(path: Path) -> object:
    """The stored checksum, if the file has not changed since."""
    status = path.stat()
    entry = _stored_sums().get(str(path), [])
    return entry[2] if entry[:2] == [status.st_size, status.st_mtime_ns] else None


def _store_sum(path: Path, checksum: str) -> None:
    status = path.stat()
    content = {**_stored_sums(), str(path): [status.st_size, status.st_mtime_ns, checksum]}
    # a cache that cannot be written: computed again next time
    with contextlib.suppress(OSError), replacing(cache_folder() / CHECKED) as temporary:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _stored_sums() -> dict[str, list[object]]:
    """All stored checksums; none if the file is missing or damaged."""
    try:
        content = json.loads((cache_folder() / CHECKED).read_bytes())
    except (OSError, ValueError):
        return {}
    entries = content.items() if isinstance(content, dict) else ()
    return {path: entry for path, entry in entries if isinstance(entry, list) and len(entry) == 3}


# --- downloads ---


def _download(dataset: str, file: RemoteFile) -> Path:
    import pooch
    import requests

    assert file.url is not None
    path = cache_folder() / dataset / file.name
    try:
        with replacing(path) as temporary, _progress_bar(file) as bar, contextlib.ExitStack() as responses:
            try:
                get = pooch.HTTPDownloader(
                    progressbar=bar,
                    chunk_size=CHUNK,
                    timeout=TIMEOUT,
                    headers={"Accept-Encoding": "identity"},  # the file as published, not compressed in transit
                    # pooch leaves the response open when it fails
                    hooks={"response": lambda response, **_: responses.enter_context(contextlib.closing(response))},
                )
                get(file.url, str(temporary), None)
            except requests.RequestException as error:
                reason = f" It could not be downloaded from {file.url}: {_reason(error)}."
                raise _missing(dataset, [file], reason) from error
            if file.checksum is not None and (found := _sum_of(temporary, file.checksum)) != file.checksum:
                raise InputError(
                    f"what {file.url} sent is not {file.name} of data set '{dataset}': expected {file.checksum}, "
                    f"found {found}; it was thrown away. Try again later. {_remedy(dataset, [file])}"
                )
    except OSError as error:
        raise not_writable(path, error) from error
    if file.checksum is not None:
        _store_sum(path, file.checksum)
    return path


def _reason(error: Exception) -> str:
    """A short reason, because the exception's own text is a page of internals."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off before the end"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT} s"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error)


@contextlib.contextmanager
def _progress_bar(file: RemoteFile) -> Generator[Any]:
    """A bar on a terminal's standard error; elsewhere one line, so that the log shows what is being downloaded.

    It has the attributes that pooch expects of a bar; pooch sets `total`, to 0 if the server does not announce it.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True, emoji=False)
    if not console.is_terminal:
        console.print(f"downloading {file.url}", markup=False, highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"downloading {file.name}", total=None)
        bar = SimpleNamespace(total=0, reset=lambda: progress.reset(task), close=lambda: None)
        bar.update = lambda amount: progress.update(task, total=bar.total or None, advance=amount)
        yield bar
