"""`fencepost client check`: the table of stories, of a driver that is half finished too."""

from __future__ import annotations

import pytest

from fencepost.harness.api import CallError
from fencepost.harness.cli import main
from fencepost.harness.conformance import client_kit
from fencepost.harness.conformance.client_stories import STORIES, ClientKit
from fencepost.harness.conformance.results import StoryResult

SILENT = "not played: the driver says no hello"


@pytest.fixture
def check(capsys, monkeypatch, tmp_path):
    """The exit code and the table of `fencepost client check` for these results, and what the driver wrote."""

    def call(results, log=None):
        if log is not None:
            (tmp_path / "logs").mkdir()
            (tmp_path / "logs" / "driver.log").write_text(log)
        monkeypatch.setattr(client_kit, "check", lambda *_: (results, tmp_path))
        with pytest.raises(SystemExit) as left:
            main.main(["client", "check", "./mine"])
        return left.value.code, capsys.readouterr().out

    return call


def test_stories_that_were_not_played_for_one_reason_are_one_row(check):
    others = [StoryResult(name, None, SILENT) for name in STORIES if name != "protocol"]
    code, out = check([StoryResult("protocol", False, "hello: gone", "say hello"), *others])
    assert code == 1
    assert out.count(SILENT) == 1
    assert f"{len(others)} stories" in out
    assert f"1 failed, {len(others)} not played" in out


def test_a_few_stories_that_were_not_played_are_named(check):
    _, out = check([StoryResult(name, None, "not played: the driver lacks seek") for name in ("seek", "many seeks")])
    rows = [line.removeprefix("-").partition("not played")[0].strip() for line in out.splitlines() if "lacks seek" in line]
    assert rows == ["seek", "many seeks"]


def test_the_end_of_what_a_driver_wrote_stands_below_the_table(check):
    log = "".join(f"line {number}\n" for number in range(9_000))
    _, out = check([StoryResult("protocol", False, "hello: gone", "say hello")], log)
    assert [line for line in out.splitlines() if line.startswith("driver: ")] == [
        f"driver: line {number}" for number in range(8_995, 9_000)
    ]


def test_a_call_that_is_not_supported_is_named_with_the_capabilities_that_need_it(monkeypatch):
    def unsupported(_):
        raise CallError("open", "UNSUPPORTED", 0, "not yet")

    monkeypatch.setattr(ClientKit, "story_read", unsupported)
    kit = object.__new__(ClientKit)
    result = kit._played("read", ("assign", "ends"))
    assert result.change == "answer `open` as docs/client-drivers.md says, or claim no assign and no ends"
