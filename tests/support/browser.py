"""A Chromium that opens one page after the other in one tab, driven by its DevTools protocol over a pipe.

To start it takes seconds of processor time, and a window of its own for a page takes one: three times what the page takes.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any

QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-quic", "--window-size=1280,900", "--remote-debugging-pipe"),
    "--disable-back-forward-cache",  # a page that was left is gone
)
PATIENCE_S = 120.0
END = b"\0"  # of a message
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy".*?>')
EMPTY = "about:blank"
KEPT = "localStorage.length + sessionStorage.length"
# A test's script that takes time leaves its promise in `playing`.
AFTER_THE_SCRIPTS = "Promise.resolve(window.playing).then(() => new Promise(done => setTimeout(() => setTimeout(() => done()))))"
PAGE_THEN = f"{AFTER_THE_SCRIPTS}.then(() => document.documentElement.outerHTML)"


class Dom:
    """A page as the browser gave it back; it is parsed for who looks at its elements. answer: what was played came to."""

    def __init__(self, html: str, answer: Any = None) -> None:
        self._html, self.answer = html, answer

    @cached_property
    def _parsed(self) -> _Elements:
        parser = _Elements()
        parser.feed(self._html)
        return parser

    @property
    def elements(self) -> list[tuple[str, dict[str, str | None]]]:
        """Names of elements with their attributes."""
        return self._parsed.elements

    @cached_property
    def text(self) -> dict[str, str]:
        """The text from each element with an id to the next."""
        return {name: "".join(texts) for name, texts in self._parsed.texts.items()}

    def named(self, name: str) -> dict[str, str | None]:
        return next(attrs for _, attrs in self.elements if attrs.get("id") == name)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._open, self.texts = "", defaultdict[str, list[str]](list)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = dict(attrs).get("id") or self._open

    def handle_data(self, data: str) -> None:
        self.texts[self._open].append(data)


def acted(report: Path, script: str) -> Path:
    """A copy of a report in which a script of the test's plays the reader (so without the policy that forbids it)."""
    copy = report.with_name("acted.html")
    html, removed = POLICY.subn("", report.read_text("utf-8"))
    assert removed == 1
    copy.write_text(html.replace("</body>", f"<p id=result></p><script id=play>{script}</script></body>"), "utf-8")
    return copy


def assert_sound(dom: Dom) -> None:
    """The scripts came to their end and nothing complained."""
    html = next(attrs for tag, attrs in dom.elements if tag == "html")
    assert html.get("data-ready") == "true"
    assert "hidden" in dom.named("script-errors"), dom.text.get("script-errors")


@contextmanager
def started(program: str) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, tempfile.TemporaryFile() as errors:
        argv = ["sh", "-c", 'exec "$@" 3<&0 4>&1 1>&2', "sh", program, *QUIET, f"--user-data-dir={profile}"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as process:
            browser = Browser(process, errors)
            try:
                yield browser
                browser.call("Browser.close")
                process.wait(PATIENCE_S)
            finally:
                process.kill()


class Browser:
    """Asks a running Chromium. Its answers and events come one after the other."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Any) -> None:
        self._process, self._errors, self._numbers = process, errors, count(1)
        self._received = b""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        tab = self.call("Target.createTarget", url=EMPTY, browserContextId=context)["targetId"]
        self._tab = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        self.call("Page.enable", self._tab)
        self.call("Page.setLifecycleEventsEnabled", self._tab, enabled=True)

    def page(self, path: Path, media: Mapping[str, str] | None = None, play: str = "", width: int = 0, fragment: str = "") -> Dom:
        """A file, opened with nothing left of the pages before it, as it is after its scripts ran.

        media: what the page's media queries see, such as {"prefers-color-scheme": "dark"}; "print" of {"media": "print"}.
        play: an expression that plays the reader, under the page's own policy; its value (awaited) is `Dom.answer`.
        width: of the window; fragment: of the address.
        """
        self._go(EMPTY)  # else another fragment of the same file would load nothing
        features = [{"name": name, "value": value} for name, value in (media or {}).items() if name != "media"]
        self.call("Emulation.setEmulatedMedia", self._tab, features=features, media=(media or {}).get("media", ""))
        if width:
            shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
            self.call("Emulation.setDeviceMetricsOverride", self._tab, **shape)
        else:
            self.call("Emulation.clearDeviceMetricsOverride", self._tab)
        self._go(path.as_uri() + fragment)
        self._evaluated(AFTER_THE_SCRIPTS)
        answer = self._evaluated(play) if play else None
        dom = Dom(self._evaluated(PAGE_THEN), answer)
        assert self._evaluated(KEPT) == 0, "the page keeps something for the next one: each needs a browser context of its own"
        return dom

    def _go(self, address: str) -> None:
        """Leave the page for another, and wait until that is loaded."""
        loader = self.call("Page.navigate", self._tab, url=address)["loaderId"]
        loaded = {"name": "load", "loaderId": loader}
        self._next(lambda message: loaded.items() <= message.get("params", {}).items())

    def _evaluated(self, expression: str) -> Any:
        """The value of an expression in the page, as after a click of its reader."""
        how = {"awaitPromise": True, "userGesture": True, "returnByValue": True}
        evaluated = self.call("Runtime.evaluate", self._tab, expression=expression, **how)
        assert "exceptionDetails" not in evaluated, evaluated
        return evaluated["result"].get("value")

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol, for the browser or the page of a session."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + END)
        self._process.stdin.flush()
        answer = self._next(lambda message: message.get("id") == number)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self, wanted: Any) -> dict[str, Any]:
        """The next message that is wanted."""
        while True:
            while END not in self._received:
                self._received += self._read()
            message, _, self._received = self._received.partition(END)
            if wanted(decoded := json.loads(message)):
                return decoded

    def _read(self) -> bytes:
        assert self._process.stdout
        pipe = self._process.stdout.fileno()
        ready, _, _ = select.select([pipe], [], [], PATIENCE_S)
        if ready and (read := os.read(pipe, 1 << 20)):
            return read
        self._process.kill()
        self._errors.seek(0)
        what = "the browser ended" if ready else f"no answer from the browser within {PATIENCE_S} s"
        raise AssertionError(f"{what}: {self._errors.read().decode(errors='replace')[-2000:]}")
