"""Sinks and programs in a row on a real cluster whose instances are killed: right ones are valid, each wrong twin is caught."""

from __future__ import annotations

import pytest
from support.fencepost_command import fencepost, verdict

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]

KILLS = ("-n", "kill,target=instance,every_s=[1,3],lasts_s=[0.5,1]")
SLOW_KILLS = ("-n", "kill,target=instance,every_s=[3,5],lasts_s=[0.5,1]")
RARE_KILLS = ("-n", "kill,target=instance,every_s=[5,8],lasts_s=[0.5,1]")
QUERY = ("--set", "database=sqlite:store.db", "--set", "listing=SELECT input FROM items ORDER BY rowid")
POSITIONS = ("--set", "positions=SELECT topic, part, next FROM positions")
ALONE = ("--set", "instances=1", "--set", "group=", "--set", "quiet_s=10")
LOOP, WRONG_LOOP = (f"{{python}} {{examples}}/applications/{name}.py" for name in ("confluent_loop", "confluent_loop_wrong"))


def run(results, workload, *options, time_s=30):
    """The verdict's document, and the violated anomalies."""
    _, out, err = fencepost(results, "run", "-w", workload, "-t", str(time_s), *options)
    (plan,) = results.glob("*/*/plan.json")
    document = verdict(plan.parent)
    assert document["verdict"] in ("valid", "invalid"), out + err
    return document, {row["name"] for row in document["properties"] if row["verdict"] == "violated"}


def compared(document, name):
    return next(row["compared"] for row in document["properties"] if row["name"] == name)


@pytest.mark.parametrize(
    ("program", "options", "violated"),
    [
        ("sqlite_sink", POSITIONS, set()),
        ("sqlite_offsets_outside_wrong", POSITIONS, {"reprocessed"}),
        ("sqlite_upsert", (), set()),
        ("sqlite_append_wrong", (), {"reprocessed"}),
        ("sqlite_early_wrong", (), {"unprocessed"}),
        ("sqlite_speculative", (*POSITIONS, "--set", "instances=1"), set()),
        ("sqlite_speculative_wrong", (*POSITIONS, "--set", "instances=1"), {"phantom-output"}),
    ],
)
def test_a_sink_to_sqlite(tmp_path, program, options, violated):
    command = ("--set", f"command={{python}} {{examples}}/sinks/{program}.py")
    document, found = run(tmp_path, "sink", *command, *QUERY, *options, *KILLS)
    assert found == violated
    assert min(compared(document, name) for name in ("reprocessed", "unprocessed")) >= 100


@pytest.mark.parametrize(("program", "violated"), [("two_phase", set()), ("two_phase_wrong", {"unprocessed"})])
def test_a_commit_in_two_phases(tmp_path, program, violated):
    command = ("--set", f"command={{python}} {{examples}}/sinks/{program}.py")
    assert run(tmp_path, "application", *command, *ALONE, *RARE_KILLS, time_s=45)[1] == violated


def test_the_sink_connector_of_kafka(tmp_path):
    connector = ("--set", "connector=org.apache.kafka.connect.file.FileStreamSinkConnector", "--set", "instances=2")
    config = 'config={file="{store}/items.txt","consumer.override.isolation.level"="read_committed"}'
    listing = 'listing=sh -c "cat $FENCEPOST_STORE/items.txt"'
    promise = ("--contract", "application=at-least-once")
    document, found = run(tmp_path, "sink", *connector, "--set", config, "--set", listing, *promise, *SLOW_KILLS)
    assert found == set()
    assert compared(document, "unprocessed") >= 100


@pytest.mark.parametrize(("second", "least"), [(LOOP, set()), (WRONG_LOOP, {"reprocessed"})])
def test_two_programs_in_a_row(tmp_path, second, least):
    commands = ("--set", f'commands=["{LOOP}","{second}"]')
    _, found = run(tmp_path, "stages", *commands, *KILLS)
    assert least <= found <= (least and {"reprocessed", "unprocessed"})
