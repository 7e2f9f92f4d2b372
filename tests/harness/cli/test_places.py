"""Files that a command is to write, and that cannot be: named before a cluster is started."""

from __future__ import annotations

import pytest

from fencepost.harness.cli import main
from fencepost.harness.conformance import probe_kit
from fencepost.harness.conformance.kit import ConformanceCheck


@pytest.mark.parametrize("words", [("probe", "--file"), ("nemesis", "check", "kill", "--json")], ids=" ".join)
@pytest.mark.parametrize(("place", "why"), [("", "it is a folder; name a file"), ("nowhere/x", "there is no directory")])
def test_a_place_that_cannot_be_written_is_named_at_once(tmp_path, monkeypatch, capsys, words, place, why):
    monkeypatch.setattr(probe_kit, "probe", lambda *_: 1 / 0)
    monkeypatch.setattr(ConformanceCheck, "run", lambda _: 1 / 0)
    with pytest.raises(SystemExit) as left:
        main.main([*words, str(tmp_path / place)])
    assert left.value.code == 254
    assert why in " ".join(capsys.readouterr().err.split())
