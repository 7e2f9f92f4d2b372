"""Capabilities that a test needs of its clients, and the plan's entry of them."""

from __future__ import annotations

import stat
import sys

import confluent_kafka
import pytest

from fencepost.clusters.local import Local
from fencepost.harness.api import CampaignError, Isolation, Writer
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.api.roles import FinalReader
from fencepost.harness.planning import clients, plan
from fencepost.harness.plugins import registry

HELLO = """#!{python}
import json, sys
ANSWERS = {{"hello": {hello}, "check": {{"refused": [["producer", "acks", "must be all"]]}}}}
while head := sys.stdin.buffer.read(4):
    request = json.loads(sys.stdin.buffer.read(int.from_bytes(head, "big")))
    body = json.dumps({{"id": request["id"], "ok": ANSWERS[request["call"]]}}).encode()
    sys.stdout.buffer.write(len(body).to_bytes(4, "big") + body)
    sys.stdout.flush()
"""


@pytest.fixture
def driver(tmp_path):
    """Writes a driver with these capabilities; its path."""

    def made(*capabilities):
        names = {"client": "pigeon", "version": "9", "runtime": "air", "transactions": None}
        hello = {"protocol": 1, **names, "capabilities": list(capabilities)}
        path = tmp_path / f"driver-{len(capabilities)}"
        path.write_text(HELLO.format(python=sys.executable, hello=hello))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return made


def a_test(client, readers="", workload="transactions", **options):
    return Test(name="t", workload=Choice(kind=workload, options=options), client=client, readers=readers)


def unsuited(test):
    workload = registry.build(registry.load("workload", test.workload.kind), test.workload.options, "workload")
    return clients.unsuited(test, workload, lambda _: None)


def test_what_a_role_needs():
    writer = Writer(transactional=True, polls=False)
    assert clients.needed(writer, {"enable.idempotence": True}) == ["transactions"]
    assert clients.needed(Writer(), {"enable.idempotence": True}) == ["idempotence", "assign", "isolation"]
    assert clients.needed(FinalReader(isolation=Isolation.UNCOMMITTED), {}) == ["assign", "isolation", "ends"]


def test_missing_capabilities_and_refused_settings_are_reported_before_the_start(driver):
    texts = unsuited(a_test(driver("assign", "isolation", "ends"), poll_share=0.0))
    assert [text.partition(":")[0] for text in texts] == ["not possible with this client", "client.producer.acks"]
    assert "lacks `transactions`" in texts[0]
    assert "which the writer processes need" in texts[0]


def test_those_who_only_read_may_have_another_client(driver):
    writes = driver("transactions", "idempotence")
    alone = unsuited(a_test(writes, poll_share=0.0))
    assert [text.split("`")[1] for text in alone[:-1]] == ["assign", "isolation", "ends"]
    assert len(unsuited(a_test(writes, "librdkafka", poll_share=0.0))) == 1  # acks, as before
    plan = clients.client_plan(a_test(writes, "librdkafka"), {"acks": "all"})
    assert (plan["driver"]["client"], plan["readers"]["kind"], plan["readers"]["driver"]) == ("pigeon", "librdkafka", None)
    assert plan["producer"] == {**clients.BENEATH["producer"], "acks": "all"}
    assert plan["consumer"] == {}


def test_the_client_in_the_workers_process_can_do_all():
    assert unsuited(a_test("librdkafka")) == []


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ({"command": "no-such-program --x"}, "no-such-program"),
        ({"command": "./no/such/program"}, "./no/such/program"),
        ({"command": "true"}, ""),
        ({"command": "{python} {examples}/applications/confluent_loop.py"}, ""),
        ({"command": "no-such-program", "image": "some/image:1"}, ""),  # what it holds is not known here
    ],
)
def test_a_program_that_is_not_there_is_a_mistake_before_the_first_run(monkeypatch, options, lost):
    monkeypatch.setattr(Local, "obtain", lambda provider, on_progress: None)
    test = Test(name="t", workload=Choice(kind="application", options=options))
    if not lost:
        plan.obtain([test], lambda _: None)
        return
    with pytest.raises(CampaignError) as caught:
        plan.obtain([test], lambda _: None)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f't: workload.command: "{lost}" is no program that can be executed here')


def test_a_command_that_lists_a_store_and_is_not_there_is_a_mistake_too(monkeypatch):
    monkeypatch.setattr(Local, "obtain", lambda provider, on_progress: None)
    options = {"command": "true", "listing": "no-listing x", "positions": "no-positions"}
    with pytest.raises(CampaignError) as caught:
        plan.obtain([Test(name="t", workload=Choice(kind="sink", options=options))], lambda _: None)
    assert [text.partition(" is ")[0] for text in caught.value.mistakes] == [
        't: workload.listing: "no-listing"',
        't: workload.positions: "no-positions"',
    ]


@pytest.mark.parametrize(
    ("client", "consumer", "session"),
    [
        ("librdkafka", {"max.poll.interval.ms": 8000}, 8000),
        ("librdkafka", {"max.poll.interval.ms": 60_000}, None),
        ("librdkafka", {"max.poll.interval.ms": 8000, "session.timeout.ms": 6000}, 6000),
        ("librdkafka", {"max.poll.interval.ms": 8000, "group.protocol": "consumer"}, None),
        ("franz-go", {"max.poll.interval.ms": 8000}, None),
        ("librdkafka", {}, None),
    ],
)
def test_consumers_without_a_group_get_a_session_that_librdkafka_takes(client, consumer, session):
    test = Test(name="t", client=client, consumer=consumer)
    assert clients.reader_settings(test).get("session.timeout.ms") == session
    if client == "librdkafka":
        confluent_kafka.Consumer({"group.id": "g", **clients.reader_settings(test), "log_level": 0}).close()
