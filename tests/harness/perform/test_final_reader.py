"""The reader of the final phase: what it says when it cannot read."""

from __future__ import annotations

import json
from itertools import count
from types import SimpleNamespace

from fencepost.harness.api import Isolation
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform import final_reader
from fencepost.harness.perform.final_reader import FinalReader
from fencepost.harness.perform.worker_commands import Control
from fencepost.workloads.testing.fake_client import FakeClient, error
from fencepost.workloads.transactions import Transactions


def test_one_that_cannot_read_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(final_reader, "time", SimpleNamespace(monotonic=count(step=0.1).__next__))
    reports = []
    control = Control(orders={"starts": {"t-0": 0}, "ends": {"t-0": 5}, "bound_s": 0.3})
    control.go.set()
    client = FakeClient(script={"poll": [error("poll", "_INVALID_ARG")] * 1000})
    writer = HistoryWriter(tmp_path / "c0-0.jsonl")
    writer.process(7, isolation=Isolation.COMMITTED.value, final=True, transactional_id=None, client="fake")
    FinalReader(lambda: client, Transactions(), writer, control, 7).run(reports.append, "r")
    writer.close()
    assert reports == [{"note": "process 7 cannot read on: _INVALID_ARG (scripted)"}, {"final": "info"}]
    assert json.loads((tmp_path / "c0-0.jsonl").read_text().splitlines()[-1])["value"] == {"t-0": [0, 5, -1]}
