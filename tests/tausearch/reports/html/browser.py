"""A headless Chromium, driven over a pipe by its DevTools protocol: what a page asks for, says and looks like."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))), None
)
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_WAIT = 30.0  # seconds for any one answer: the machine may be busy


class Page:
    """One page of the browser.

    Attributes:
        requests: Addresses of everything that the page asked for.
        complaints: What it wrote to the console, and errors that nobody caught.
    """

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._messages = to, _messages(answers)
        self._number, self._session = 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser to do something; returns its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        for answer in self._messages:
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._heard(answer)
        raise AssertionError("the browser has ended")

    def navigate(self, file: Path, width: int, *, dark: bool = False) -> None:
        """Open a file in a window of that width."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=file.as_uri())
        self.until("document.readyState === 'complete' && typeof Plotly === 'object'")

    def open(self, file: Path, width: int, *, dark: bool = False) -> None:
        """Open a file in a window of that width, all of its cells and plots."""
        self.navigate(file, width, dark=dark)
        self.value("document.querySelectorAll('details').forEach((each) => each.open = true)")
        self.value("plots.forEach(draw)")
        self.until("[...plots].every((each) => each.querySelector('.main-svg'))")

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript in the page; returns a plain value."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, file: Path) -> None:
        """Take a picture of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def print(self, file: Path) -> None:
        """Print the page to a PDF file."""
        file.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _WAIT
        while not self.value(expression):
            assert time.monotonic() < end, f"never: {expression}; {self.complaints}"
            time.sleep(0.05)

    def _heard(self, event: dict[str, Any]) -> None:
        """Take note of what the page does of its own accord."""
        what, about = event.get("method"), event.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif what == "Log.entryAdded":
            self.complaints.append(about["entry"]["text"])
        elif what == "Runtime.exceptionThrown":
            self.complaints.append(about["exceptionDetails"]["exception"].get("description", "?"))
        elif what == "Runtime.consoleAPICalled":
            self.complaints.append(str([each.get("value") for each in about["args"]]))


def _messages(answers: int) -> Iterator[dict[str, Any]]:
    """Yield what the browser sends: JSON, each ended by a zero byte."""
    rest = b""
    while chunk := os.read(answers, 1 << 20):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from map(json.loads, whole)


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser with one page, ended with the block.

    Args:
        profile: An empty folder for what the browser keeps.
    """
    assert CHROMIUM is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The browser reads commands from descriptor 3 and answers on 4.
    start = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash"]
    command = [*start, CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        page = Page(ours_out, ours_in)
        yield page
        page.call("Browser.close")
    finally:
        process.terminate()
        process.wait(_WAIT)
        os.close(ours_out)
        os.close(ours_in)
