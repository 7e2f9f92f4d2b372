"""The process that performs a test: what it leaves in the logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fencepost.harness.api import ClientSettings, Member, Reader, Writer
from fencepost.harness.perform.performer import Performance, receipt_text
from fencepost.harness.perform.plan_roles import coordinated, instances_of, name_of

LEAKY = '''
import os
from dataclasses import dataclass

import structlog
from fencepost.harness.api import ClusterError


@dataclass(frozen=True, kw_only=True)
class Leaky:
    """Its client writes the password into a log, then nothing works."""

    def up(self, run_dir, topics):
        (run_dir / "logs" / "c0").mkdir()
        (run_dir / "logs" / "c0" / "stderr.log").write_text(f"debug: password={os.environ['SEC']}")
        try:
            raise OSError(f"turned away with {os.environ['SEC']}")
        except OSError:
            structlog.get_logger().exception("fault raised", call="inject")
        raise ClusterError(f"not up: {os.environ['SEC']}")
'''


def test_every_client_has_a_consumer_group_and_its_name_is_known_to_faults():
    """The group is the one that the client is opened with, so its coordinator is one that somebody asks."""
    plan = {"prefix": "fp-ab12-"}
    roles = (Writer(transactional=True), Writer(), Reader())
    noted = coordinated(plan, roles)
    names = [name_of(plan, slot) for slot in range(3)]
    assert noted == {
        "transactional_ids": ["fp-ab12-0"],
        "groups": [ClientSettings(name=name, bootstrap="").group for name in names],
    }
    assert noted["groups"] == ["fp-ab12-0-readers", "fp-ab12-1-readers", "fp-ab12-2-readers"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, "kill n2 strikes"),
        ({"healed_ns": 5}, "kill n2 healed"),
        ({"healed_ns": 5, "note": "not healed at first: n2"}, "kill n2 healed"),
        ({"note": "not healed: n2"}, "kill n2 was not healed - not healed: n2"),
        ({"effective": False, "note": "n2 was dead already"}, "kill n2 strikes - without effect: n2 was dead already"),
    ],
)
def test_a_receipt_says_in_a_line_whether_the_fault_was_healed(changed, text):
    line = {"kind": "kill", "targets": ["n2"], "healed_ns": 0, "effective": True, "note": ""}
    assert receipt_text({**line, **changed}) == text


def perform(run_dir, **environment):
    """Performs a test on that cluster in a process of its own; how it failed."""
    (run_dir / "leaky.py").write_text(LEAKY)
    plan = {
        "cluster": {"kind": "leaky:Leaky", "options": {}},
        "workload": {"kind": "transactions", "options": {}},
        "client": {"kind": "librdkafka", "producer": {"sasl.password": "env:SEC"}, "consumer": {}},
        "topics": {},
    }
    (run_dir / "plan.json").write_text(json.dumps(plan))
    argv = [sys.executable, "-m", "fencepost.harness.perform.performer", str(run_dir)]
    known = {**os.environ, "FENCEPOST_PLUGIN_PATH": str(run_dir), **environment}
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=known, timeout=60)
    (failed,) = (event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "failed")
    return failed


def test_a_secret_of_the_clients_alone_is_taken_out_of_everything_and_a_fault_that_raised_shows_where(tmp_path):
    """The cluster has no settings with it, so nobody but the clients would have looked it up."""
    assert perform(tmp_path, SEC="hunter2hunter2")["text"] == "not up: ***"
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").rglob("*.log")}
    assert logs["stderr.log"] == "debug: password=***"
    assert "Traceback (most recent call last)" in logs["harness.log"]
    assert "OSError: turned away with ***" in logs["harness.log"]
    assert "hunter2" not in "".join(logs.values())


def test_without_that_secret_nothing_starts(tmp_path):
    event = perform(tmp_path, SEC="")
    assert event["kind"] == "CampaignError"
    assert event["text"] == "sasl.password = env:SEC: the environment variable SEC is empty"
    assert not (tmp_path / "logs" / "c0").exists()


def test_members_of_a_group_are_instances_and_spares_do_not_run_from_the_start():
    """A reader that only looks up the group's offsets is none."""
    member = Member(group="g")
    roles = [
        Writer(transactional=True),
        member,
        replace(member, spare=True),
        Reader(group="g", joins=False),
    ]
    assert instances_of(roles) == {"c1": True, "c2": False}


def test_workers_are_tended_until_every_fault_is_healed():
    """An instance that a fault has retired is started again by the pool, for which healing waits."""
    tended, healed = threading.Event(), []
    performer = SimpleNamespace(_supervise=lambda *_: tended.set())
    runner = SimpleNamespace(stop=lambda: healed.append(tended.wait(60)))
    Performance._end_faults(performer, SimpleNamespace(), runner, 0.0)
    assert healed == [True]
