"""What the kit takes for the requests of a driver's client, and for an answer before the broker's."""

from __future__ import annotations

import json
import os
import subprocess

from fencepost.harness.conformance import client_wire
from fencepost.harness.conformance.client_wire import Early, Wire
from fencepost.harness.conformance.footprint import footprint, gathered


def write(directory, *requests):
    """Lines of a proxy's record: client's id, API, version, body."""
    known = {"at": "request", "node": "n1", "connection": 1, "correlation": 1, "arrived_ns": 1}
    with open(directory / "proxy.jsonl", "a") as file:
        for number, (client_id, api, version, body) in enumerate(requests):
            file.write(
                json.dumps({**known, "n": number, "client_id": client_id, "api": api, "version": version, "body": body}) + "\n"
            )


def test_a_late_fetch_of_a_client_that_was_closed_accuses_nobody(tmp_path):
    wire = Wire("127.0.0.1:1", tmp_path, lambda: None)
    wire.begin("kit-7-1")
    write(tmp_path, ("kit-7-1", "Fetch", 12, {"isolationLevel": 0}))
    assert wire.requests("Fetch") == [{"isolationLevel": 0}]
    wire.begin("kit-7-12")
    write(tmp_path, ("kit-7-1", "Fetch", 12, {"isolationLevel": 0}), ("consumer-kit-7-12", "Fetch", 12, {"isolationLevel": 1}))
    assert (wire.is_named(), wire.requests("Fetch"), wire.requests("Produce")) == (True, [{"isolationLevel": 1}], [])


def test_a_client_that_does_not_say_its_name_has_all_requests_since_it_was_opened(tmp_path):
    wire = Wire("127.0.0.1:1", tmp_path, lambda: None)
    write(tmp_path, ("library", "EndTxn", 5, {}))
    wire.begin("kit-7-2")
    write(tmp_path, ("library", "EndTxn", 3, {}))
    assert (wire.is_named(), wire.versions("EndTxn")) == (False, {3})


def test_only_an_answer_before_the_delay_is_over_is_early(monkeypatch):
    clock = iter([10.0 + client_wire.EARLY_MS / 1000 + 0.001, 10.010])
    monkeypatch.setattr(client_wire.time, "monotonic", lambda: next(clock))
    early = Early()
    early.note(10.0)
    assert early.found == []
    early.note(10.0)
    assert (early.seen, [round(took) for took in early.found]) == (2, [10])


def test_what_grows_with_every_second_opening_is_gathered():
    before = {"threads": 10, "open files": 20, "child processes": 0}
    assert gathered(before, {"threads": 35, "open files": 45, "child processes": 0}, 50) == []
    assert gathered(before, {"threads": 36, "open files": 20, "child processes": 50}, 50) == ["26 threads", "50 child processes"]


def test_the_footprint_of_a_process_has_its_children(tmp_path):

    before = footprint(os.getpid())
    with subprocess.Popen(["sleep", "60"]) as child:
        now = footprint(os.getpid())
        child.kill()
    assert now["child processes"] == before["child processes"] + 1
    assert before["threads"] >= 1
    assert before["open files"] >= 1
