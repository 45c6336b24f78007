"""The report as a live page: a small web server on the loopback address, for a browser here or behind an SSH tunnel."""

from __future__ import annotations

import errno
import json
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from driftless.errors import InputError
from driftless.report.html import context, plotly, read, render
from driftless.report.summary import summarise
from driftless.report.watched import Seen, Watched, status_text, version_of

ADDRESS = "127.0.0.1"
PORT = 8642
NAMES = ("localhost", "127.0.0.1", "::1")
"""What a browser may call this machine. Any other name is of a page elsewhere that was led here (DNS rebinding)."""
HTML, JSON, SCRIPT = "text/html; charset=utf-8", "application/json", "text/javascript; charset=utf-8"
Answers = dict[str, tuple[str, Callable[[], str]]]
"""By path: the kind of content, and what makes it."""


class Page(NamedTuple):
    version: str
    text: str


class LiveReport:
    """What the server answers with. The page is made when it is asked for and a run has changed, once at a time."""

    def __init__(self, folders: Sequence[Path], target: float | None = None) -> None:
        self._watched = Watched(folders)
        self._target = target
        self._page = Page("", "")
        self._rendering = threading.Lock()

    def page(self) -> str:
        with self._rendering:
            seen = self._watched.look()
            version = version_of(seen)
            if self._page.version != version:
                self._page = Page(version, self._render(seen, version))
            return self._page.text

    def _render(self, seen: list[Seen], version: str) -> str:
        live: dict[str, Any] = {"version": version, "js": read("live.js")}
        runs = [run.stored for run in seen if run.has_begun]
        try:
            live["text"] = status_text(seen)
            if runs:
                return render("template.html", **context(summarise(runs, self._target)), live=live)
            problem = "No run has begun yet. The page fills by itself as soon as one has recorded a round."
        except (InputError, OSError) as error:
            problem = str(error)
        except Exception as error:
            traceback.print_exc()
            problem = f"The page could not be made: {error!r}. The terminal of driftless watch has the details."
        return render("live_message.html", problem=problem, live={"text": "", **live})

    def status(self) -> str:
        seen = self._watched.look()
        answer: dict[str, Any] = {"version": version_of(seen)}
        try:
            each = [run.progress for run in seen]
            answer |= {"text": status_text(seen), "runs": [run._asdict() for run in each]}
            answer |= {"done": sum(run.done for run in each), "total": sum(run.total for run in each)}
        except Exception as error:  # of a damaged file, or of one that was deleted just now
            answer |= {"text": f"The state of the runs cannot be read: {error}", "runs": [], "done": 0, "total": 0}
        return json.dumps(answer)


class Server(ThreadingHTTPServer):
    """Answers on the loopback address alone; a browser that hangs up is no error."""

    def __init__(self, port: int, report: LiveReport) -> None:
        answers = {"/": (HTML, report.page), "/status.json": (JSON, report.status), "/plotly.js": (SCRIPT, plotly)}
        super().__init__((ADDRESS, port), partial(Handler, answers))

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    def __init__(self, answers: Answers, *given: Any) -> None:
        self.answers = answers
        super().__init__(*given)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if host_name(self.headers.get("Host", "")) not in NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "Only localhost is served")
        elif path not in self.answers:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            kind, make = self.answers[path]
            self.answer(kind, make().encode())

    def answer(self, kind: str, content: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=86400" if kind == SCRIPT else "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def host_name(header: str) -> str | None:
    """Without the port."""
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def open_server(folders: Sequence[Path], port: int = PORT, target: float | None = None) -> Server:
    """A server that listens already; `serve_forever` makes it answer. Port 0: any that is free."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(
                f"there is no folder '{folder}' to watch; give the folder of a run or comparison, or one above."
            )
    if runs := [run.stored for run in Watched(folders).look() if run.has_begun]:
        summarise(runs, target)  # a mistake is said here, not in the page
    try:
        return Server(port, LiveReport(folders, target))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is in use; choose another one: --port {free_port(port)}") from None
        raise InputError(f"port {port} cannot be used ({error.strerror}); choose another one: --port {PORT}") from None


def free_port(after: int) -> int:
    """The next one that is free; 0, which is any, if none of the next hundred is."""
    for port in range(after + 1, min(after + 100, 65536)):
        with socket.socket() as trial:
            try:
                trial.bind((ADDRESS, port))
            except OSError:
                continue
            return port
    return 0
