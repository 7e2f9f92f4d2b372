"""Programs of somebody's own on a real cluster: right ones are valid, and whoever cheats is caught."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.fencepost_command import fencepost, verdict

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
FORGETFUL = ROOT / "tests" / "support" / "applications" / "forgetful.py"
EXAMPLES = ROOT / "examples" / "applications"
CHEATS = EXAMPLES / "confluent_loop_cheats.py"
PAUSES = ("-n", "pause,target=client,lasts_s=8")
KILLS = ("-n", "kill,target=client,every_s=[1,3],lasts_s=0.5")


def run(results, program, *options, time_s, **environment):
    """The only run's directory and its violated anomalies."""
    command = f"command={sys.executable} {program}"
    _, out, err = fencepost(results, "run", "-w", "application", "--set", command, "-t", str(time_s), *options, **environment)
    (plan,) = results.glob("*/*/plan.json")
    document = verdict(plan.parent)
    assert document["verdict"] in ("valid", "invalid"), out + err
    return plan.parent, {row["name"] for row in document["properties"] if row["verdict"] == "violated"}


@pytest.mark.nightly
def test_a_program_that_leaves_inputs_out_is_caught_and_nothing_else_is_violated(tmp_path):
    small = ("--brokers", "1", "--rate", "40", "--set", "instances=2", "--set", "readers=0", "-n", "none")
    directory, violated = run(tmp_path, f"{CHEATS} skip", *small, time_s=5, SKIPPED="20")
    assert violated == {"unprocessed"}
    lines = [json.loads(line) for line in (directory / "history" / "harness.jsonl").read_text().splitlines()]
    (drain,) = [line["value"] for line in lines if line.get("f") == "drain" and line["type"] == "ok"]
    assert drain["drained"]
    answers = {row["name"]: row for row in verdict(directory)["properties"]}
    assert answers["reprocessed"]["verdict"] in ("held", "held without occasion")
    assert answers["reprocessed"]["compared"] >= 50
    assert (directory / "logs" / "c2" / "application.log").exists()


CONTENT = ("--set", "content=header content-sha256")
CHEATED = {  # what each program does wrong, with what it may be found by: any of these
    "early": {"unprocessed"},
    "resend": {"reprocessed"},
    "stale": {"reprocessed", "unprocessed"},  # its own position is behind the group's, or ahead of what it could commit
    "jump": {"unprocessed"},
    "gather": {"reprocessed"},
    "latest": {"unprocessed"},
    "noseek": {"unprocessed"},
    "partly": {"unprocessed"},
    "remember": {"unprocessed"},
    "skip": {"unprocessed"},
    "outside": {"reprocessed"},
    "order": {"output-order"},
    "uncommitted": {"phantom-output"},
    "content": {"phantom-output"},
}


def of_its_own_faults(results, program, *options):
    """The violated anomalies of a run of 30 s with the workload's own faults, and how often each occasion occurred."""
    directory, violated = run(results, program, *options, *CONTENT, "--set", "ordered_by_key=true", time_s=30)
    return violated, verdict(directory)["occasions"]


@pytest.mark.nightly
@pytest.mark.parametrize("cheat", CHEATED)
def test_whoever_cheats_is_caught_in_three_runs_with_the_faults_of_the_workload(tmp_path, cheat):
    found = set()
    for number in range(3):
        violated, occasions = of_its_own_faults(tmp_path / str(number), f"{CHEATS} {cheat}")
        assert occasions["client-struck"] >= 3
        found |= violated
        if CHEATED[cheat] & found:
            return
    pytest.fail(f"found in three runs: {sorted(found) or 'nothing'}")


ZOMBIES = (  # an instance is frozen beyond its session between its outputs and its offsets
    *("--cluster-set", "proxy=true", "-n"),
    "protocol,hold=AddOffsetsToTxn,fire=pause,fire_target=client:{client},fire_lasts_s=9,every_s=[1,2],lasts_s=10",
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("program", "found"), [(f"{CHEATS} memberless", {"reprocessed"}), (EXAMPLES / "confluent_loop.py", set())]
)
def test_a_zombie_is_caught_whose_offsets_name_no_member(tmp_path, program, found):
    """Nothing refuses them when it wakes, and others have processed its inputs meanwhile (KIP-447)."""
    _, violated = run(tmp_path, program, *ZOMBIES, time_s=30)
    assert violated == found


REFUSALS = (  # outputs are refused as too large for a moment; 78 bytes, which a marker takes, are always room enough
    *("-n", "kill,target=instance:in-transaction", "-n"),
    'topic-settings,target=topic:out,settings={"max.message.bytes"=100},lane=refusals,every_s=[2,4],lasts_s=[0.2,0.5]',
)


@pytest.mark.nightly
@pytest.mark.parametrize(("program", "found"), [(f"{CHEATS} survivor", {"unprocessed"}), (EXAMPLES / "confluent_loop.py", set())])
def test_who_reads_on_after_an_abort_that_its_producer_survives_is_caught(tmp_path, program, found):
    _, violated = run(tmp_path, program, *REFUSALS, time_s=30)
    assert violated == found


@pytest.mark.nightly
@pytest.mark.parametrize("program", ["confluent_loop.py", "confluent_partitions.py"])
def test_the_right_loop_is_valid_under_the_faults_of_the_workload_and_they_strike_it(tmp_path, program):
    violated, occasions = of_its_own_faults(tmp_path, EXAMPLES / program)
    assert violated == set()
    assert occasions["group-rebalanced"] >= 1
    assert occasions["instance-died"] + occasions["work-aborted"] + occasions["work-unanswered"] >= 1


@pytest.mark.nightly
@pytest.mark.parametrize("faults", [KILLS, PAUSES, ("-n", "kill")], ids=["kill", "pause", "brokers"])
@pytest.mark.parametrize("program", ["confluent_loop.py", "streams.py"])
def test_a_right_program_is_valid(tmp_path, program, faults):
    if program == "streams.py":
        fetched = fetch_streams()
        assert fetched == 0, "kafka-streams could not be fetched"
    _, violated = run(tmp_path, EXAMPLES / program, *faults, time_s=60)
    assert violated == set()


@pytest.mark.nightly
def test_offsets_outside_the_transaction_are_caught(tmp_path):
    _, violated = run(tmp_path, EXAMPLES / "confluent_loop_wrong.py", *KILLS, time_s=60)
    assert "reprocessed" in violated


STATE = ("--set", "keys=20", "--set", "ordered_by_key=true")
COUNTS = (*STATE, "--set", "counts=json /count", "--set", 'stores=["counts"]', "--set", "stored=count regex ^([0-9]+)")
PAIRS = (*STATE, "--set", "outputs_per_input=[1,2]", "--set", 'stores=["latest"]', "--set", r"stored=last regex ^(\S+) ")
STATEFUL = {"streams.py count": COUNTS, "streams.py join": PAIRS, "confluent_count.py": COUNTS}


def compared(directory, *names):
    """Numbers of comparisons that some checks have made."""
    return {row["name"]: row["compared"] for row in verdict(directory)["properties"] if row["name"] in names}


@pytest.mark.nightly
@pytest.mark.parametrize("program", STATEFUL)
def test_stores_are_what_changelogs_and_inputs_make_of_them(tmp_path, program):
    assert fetch_streams() == 0, "kafka-streams could not be fetched"
    directory, violated = run(tmp_path, EXAMPLES / program, *STATEFUL[program], *KILLS, time_s=60, STANDBYS="1")
    assert violated == set()
    answers = compared(directory, "store-divergence", "wrong-state")
    assert answers["store-divergence"] >= answers["wrong-state"] >= 100


@pytest.mark.nightly
def test_a_changelog_that_lacks_records_is_caught_and_outputs_show_it_only_after_a_rebalance(tmp_path):
    small = ("--brokers", "1", "--rate", "40", "--set", "instances=1", "--set", "readers=0", "-n", "none")
    directory, violated = run(tmp_path, FORGETFUL, *COUNTS, *small, time_s=8)
    assert {"store-divergence", "wrong-state"} <= violated <= {"store-divergence", "wrong-state", "torn-state"}
    assert compared(directory, "store-divergence")["store-divergence"] >= 50


@pytest.mark.nightly
def test_streams_at_least_once_has_a_wrong_state_after_a_kill(tmp_path):
    assert fetch_streams() == 0, "kafka-streams could not be fetched"
    options = (*COUNTS, "--set", "instances=1", "--set", "input_abort_share=0.0")
    kills = ("-n", "kill,target=client:c2,every_s=[10,16],lasts_s=[0.5,1]")
    _, violated = run(tmp_path, EXAMPLES / "streams.py count", *options, *kills, time_s=60, GUARANTEE="at_least_once")
    assert {"torn-state", "wrong-state"} <= violated <= {"torn-state", "wrong-state", "reprocessed", "output-order"}


def fetch_streams() -> int:
    """The exit code of fetching kafka-streams, which is then in the cache."""
    return subprocess.run([sys.executable, EXAMPLES / "streams.py", "fetch"], check=False).returncode
