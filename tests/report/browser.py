"""A headless Chromium, driven over its debugging pipe with the standard library alone.

Messages are JSON, each ended by a NUL byte: ours go to the browser's descriptor 3, its answers come from descriptor 4.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
    "--no-default-browser-check", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
SECONDS = 30.0


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a fresh browser. `requests`: what it requested; `problems`: errors and warnings of its console."""

    def __init__(self, executable: str, width: int = 1280, height: int = 900) -> None:
        self._profile = tempfile.mkdtemp(prefix="driftless-chromium-")
        size = f"--window-size={width},{height}"
        arguments = [executable, *FLAGS, size, f"--user-data-dir={self._profile}", "about:blank"]
        self._pid, self._to, self._from = spawn(executable, arguments)
        self._buffer = b""
        self._number = 0
        self.session: str | None = None
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.loaded = 0

    def __enter__(self) -> Self:
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, TimeoutError):
            os.killpg(self._pid, signal.SIGKILL)
        for descriptor in (self._to, self._from):
            os.close(descriptor)
        os.waitpid(self._pid, 0)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are noted."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while True:
            answer = self._receive(end)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer within {SECONDS:g} s")
            content = os.read(self._from, 1 << 16)
            if not content:
                raise BrokenPipeError("the browser has ended")
            self._buffer += content
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, given = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded += 1
        elif method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in given["args"]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.problems.append(given["entry"]["text"])

    def open(self, file: Path) -> None:
        self.visit(file.resolve().as_uri())

    def visit(self, url: str) -> None:
        loaded = self.loaded
        self.call("Page.navigate", url=url)
        self.until(lambda: self.loaded > loaded)

    def until(self, done: Callable[[], bool], seconds: float = SECONDS) -> None:
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"it did not come true within {seconds:g} s")
            self.call("Runtime.evaluate", expression="0")
            time.sleep(0.02)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def box(self, selector: str) -> list[float]:
        """x, y, width and height of an element on the screen; it is scrolled there."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center'}})")
        return self.evaluate(f"(({{x, y, width, height}}) => [x, y, width, height])({found}.getBoundingClientRect())")

    def mouse(self, kind: str, x: float, y: float, count: int = 1) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=count)

    def click(self, selector: str, times: int = 1) -> None:
        """A real mouse click in the middle of the element."""
        x, y, width, height = self.box(selector)
        for number in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x + width / 2, y + height / 2, number)

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """With the mouse, between two places of an element, as shares of its width and height."""
        x, y, width, height = self.box(selector)
        first, last = ((x + right * width, y + down * height) for right, down in (start, end))
        for kind, place in (("mousePressed", first), ("mouseMoved", last), ("mouseReleased", last)):
            self.mouse(kind, *place)

    def press(self, key: str) -> None:
        text = {"Enter": "\r", " ": " "}.get(key)
        code = {"Enter": 13, " ": 32, "Tab": 9}[key]
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, text=text or "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select element, and fire its change event, as its user would."""
        self.evaluate(
            f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change', {{bubbles: true}})); }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )

    def emulate(self, width: int, height: int, scheme: str = "light") -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, file: Path, whole: bool = True) -> None:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))


def spawn(executable: str, arguments: list[str]) -> tuple[int, int, int]:
    """Start the browser in a process group of its own: its id, and the ends of the two pipes that are ours."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # Copies with high numbers, so that placing one at 3 cannot overwrite the other.
    high_in, high_out = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs_in, theirs_out))
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, high_in, 3),
        (os.POSIX_SPAWN_DUP2, high_out, 4),
    ]
    pid = os.posix_spawn(executable, arguments, os.environ, file_actions=actions, setpgroup=0)
    for descriptor in (theirs_in, theirs_out, high_in, high_out):
        os.close(descriptor)
    return pid, ours_out, ours_in
