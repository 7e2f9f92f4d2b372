"""Whole runs on a real cluster, of three brokers where faults strike them, through the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from support.fencepost_command import (
    FENCEPOST,
    JUDGED_HERE,
    SMALL,
    answers,
    completed,
    fencepost,
    finish,
    processes_of,
    read_until,
    start,
    until,
    verdict,
    workload_runs,
)

from fencepost.harness.api import Outcome
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.history.writer import HistoryWriter

pytestmark = pytest.mark.cluster


CAMPAIGN = """
name = "two runs"
seed = 5
[defaults]
rate = 60

[[test]]
name = "correct"
time_s = 8
[test.workload]
kind = "transactions"
writers = 4
abort_share = 0.3
[[test.nemesis]]
kind = "kill"
target = "leader"
every_s = [1, 2]
lasts_s = [2, 3]
[[test.nemesis]]
kind = "cut-clients"
every_s = [1, 2]
lasts_s = [1, 2]
lane = "clients"
when = "transaction-open"

[[test]]
name = "wrong"
time_s = 8
cluster = { brokers = 1, proxy = true }
contract = { isolation = "read_committed", readers = "all" }
[test.workload]
kind = "transactions"
writers = 2
readers = 0
uncommitted_readers = 2
abort_share = 0.4
[[test.nemesis]]
kind = "protocol"
lose = "EndTxn"
on = "answer"
times = 1
every_s = [0.5, 1]
lasts_s = [1, 2]
"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> tuple[dict[str, Path], int, str]:
    """A run with correct settings under a kill and a partition, and one with a wrong setting: directories, exit code, output.

    Spark judges a whole run in packaging/test_wheel.py.
    """
    place = tmp_path_factory.mktemp("campaign")
    (place / "two.toml").write_text(CAMPAIGN)
    code, out, err = finish(start(place / "results", "campaign", str(place / "two.toml"), program=JUDGED_HERE))
    runs = {json.loads(plan.read_text())["test"]: plan.parent for plan in (place / "results").rglob("plan.json")}
    assert set(runs) == {"correct", "wrong"}, out + err
    return runs, code, out


@pytest.fixture(scope="module")
def valid_run(campaign) -> tuple[Path, int, str]:
    """The run with correct settings."""
    runs, code, out = campaign
    return runs["correct"], code, out


def test_a_correct_run_is_valid_and_every_core_promise_was_compared(valid_run):
    run_dir, _, _ = valid_run
    document = verdict(run_dir)
    assert document["verdict"] == "valid", document["reason"]
    compared = {entry["name"]: entry["compared"] for entry in document["properties"]}
    for name in ("lost-write", "duplicate", "aborted-read", "torn-transaction", "inconsistent-offset", "phantom", "lso-stall"):
        assert compared[name] > 0, name


def test_the_faults_took_hold_and_left_receipts(valid_run):
    run_dir, _, _ = valid_run
    receipts = [json.loads(line) for line in (run_dir / "history" / "faults.jsonl").read_text().splitlines()]
    healed = {receipt["id"]: receipt for receipt in receipts if receipt["healed_ns"]}
    assert {receipt["kind"] for receipt in healed.values()} == {"kill", "cut-clients"}
    assert all(receipt["effective"] for receipt in healed.values()), healed
    inside = [receipt["evidence"]["when"]["by"] for receipt in healed.values() if receipt["kind"] == "cut-clients"]
    assert all(clients and set(clients) <= {"c0", "c1", "c2", "c3"} for clients in inside), healed


def test_the_proxy_lost_an_answer_and_kept_what_it_saw(campaign):
    """The transaction was decided, and its client asked again; each request has its times in order."""
    runs, _, _ = campaign
    (receipt, *_) = [line for line in open_run(runs["wrong"]).known_receipts() if line["kind"] == "protocol"]
    assert receipt["effective"], receipt
    (caught, *_) = receipt["evidence"]["during"]
    requests = pq.read_table(runs["wrong"] / "wire.parquet").to_pylist()
    lost = [row for row in requests if row["rules"]]
    assert {row["api"] for row in lost} == {"EndTxn"}
    assert caught["transactional_id"] in [row["transactional_id"] for row in lost]
    assert all(row["answered_ns"] and row["lost"] and not row["returned_ns"] for row in lost)
    ids = [row["producer_id"] for row in requests if row["api"] == "EndTxn"]
    assert all(ids.count(row["producer_id"]) > 1 for row in lost)
    answered = [row for row in requests if row["returned_ns"]]
    assert all(row["arrived_ns"] <= row["forwarded_ns"] <= row["answered_ns"] <= row["returned_ns"] for row in answered)
    assert {"InitProducerId", "Produce", "EndTxn", "WriteTxnMarkers", "Fetch"} <= {row["api"] for row in answered}


def test_the_run_directory_is_complete_and_the_brokers_data_is_gone(valid_run):
    run_dir, _, out = valid_run
    names = {path.name for path in run_dir.iterdir()}
    assert {
        "plan.json",
        "history",
        "history.parquet",
        "faults.parquet",
        "verdict.json",
        "anomalies.parquet",
        "report.html",
    } <= names
    assert not list(run_dir.rglob("*.log.deleted"))
    assert not list(run_dir.rglob("00000000000000000000.log"))
    assert str(run_dir / "report.html") in out.replace("\n", "")
    assert processes_of(run_dir) == []


def test_check_judges_again_from_disk_and_prints_the_document(valid_run, without_spark):
    """The workers' lines alone are enough: the merged files and the verdict are made again."""
    run_dir, _, _ = valid_run
    before = verdict(run_dir)
    for name in ("history.parquet", "faults.parquet", "verdict.json"):
        (run_dir / name).unlink()
    code, out, _ = without_spark("check", str(run_dir), "--json")
    document = json.loads(out)
    assert code == 0
    assert document["properties"] == before["properties"]


def test_what_it_exports_for_jepsen_is_valid_too(valid_run, without_spark, tmp_path):
    """Aborted transactions that polled and readers at read_uncommitted included."""
    run_dir, _, _ = valid_run
    target = tmp_path / "history.edn"
    assert without_spark("export", str(run_dir), "--out", str(target))[0] == 0
    code, out, _ = without_spark("check", str(target), "--json")
    document = json.loads(out)
    assert (code, document["verdict"]) == (0, "valid"), document["reason"]
    assert answers(document)["poll-skip"] == answers(document)["aborted-read"] == "held"


def test_a_wrong_setting_is_caught(campaign):
    """P5: readers at read_uncommitted, judged as read_committed ones. The campaign ends with 1, since no test expected it."""
    runs, code, _ = campaign
    document = verdict(runs["wrong"])
    assert code == 1
    assert answers(document)["aborted-read"] == "violated"
    assert document["findings"][0]["operations"]


def test_the_round_of_the_campaign_names_what_was_found_and_the_report_that_shows_it(campaign):
    runs, _, _ = campaign
    [folder] = (runs["wrong"].parent / "rounds").iterdir()
    plan = json.loads((runs["wrong"] / "plan.json").read_text())
    cases = {case.get("name"): case for case in ElementTree.parse(folder / "junit.xml").getroot().iter("testcase")}
    failure = cases["wrong"].find("failure")
    assert folder.name == plan["round"]
    assert cases["correct"].find("failure") is None
    assert "aborted-read" in failure.get("type")
    assert verdict(runs["wrong"])["findings"][0]["sentence"][:40] in failure.text
    assert f"report: {runs['wrong'] / 'report.html'}" in failure.text
    assert "### wrong: against expectation" in (folder / "summary.md").read_text()


def test_a_harness_killed_in_the_middle_leaves_nothing_behind_and_its_run_can_be_judged(without_spark, tmp_path):
    """Before, `clean` names it as in use; afterwards nothing but the run itself is left, once `clean` has been called."""
    own = {"TMPDIR": str(tmp_path / "tmp"), "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    (tmp_path / "tmp").mkdir()
    process = start(tmp_path, "run", "--time", "600", *SMALL, **own)
    run_dir = until(lambda: workload_runs(tmp_path))
    assert processes_of(run_dir)
    cleaned = fencepost(tmp_path, "clean", "--runs", "0", "--yes", **own)
    for used in (run_dir, *(tmp_path / "tmp").glob("fencepost-*-*")):
        assert f"left alone: {used}, in use by fencepost run (process {process.pid} " in " ".join(cleaned[1].split()), cleaned
    assert (run_dir / "data" / "n1").is_dir()
    process.kill()
    process.communicate()
    until(lambda: not processes_of(run_dir))
    assert not (run_dir / "data").exists()
    until(lambda: not processes_of(tmp_path))  # those of Spark too, once its JVM has started so far that it sees who is gone
    assert fencepost(tmp_path, "clean", **own)[0] == 0
    assert list((tmp_path / "tmp").glob("fencepost-*-*")) == []
    code, out, _ = without_spark("check", str(run_dir), "--json")
    document = json.loads(out)
    assert code == 2
    assert document["verdict"] == "unknown"
    assert answers(document)["torn-transaction"] == "not exercised", "there was no final read"
    assert document["counts"]["ok"] > 0


def test_ctrl_c_heals_reads_back_and_judges_what_there_is(tmp_path):
    process = start(tmp_path, "run", "--time", "600", *SMALL, program=JUDGED_HERE)
    run_dir = until(lambda: workload_runs(tmp_path))
    until(lambda: completed(run_dir, "txn") >= 60 and completed(run_dir, "poll"))
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (run_dir / "verdict.json").exists(), f"{code}: {out}{err}"
    document = verdict(run_dir)
    assert (document["verdict"], document["expectation_met"]) == ("valid", None), out + err
    assert document["expectation"].startswith("stopped by Ctrl-C after ")
    assert document["weakened"][0].endswith(" of 600 s")
    assert code == 2, "a run that was cut short is no success"
    assert document["counts"]["final_read"] > 0
    assert processes_of(run_dir) == []


def test_a_workload_runs_once_a_transaction_is_over_and_not_once_a_client_is_initialised(tmp_path):
    history = tmp_path / "campaign" / "run" / "history"
    history.mkdir(parents=True)
    (history.parent / "plan.json").write_text("{}")
    writer = HistoryWriter(history / "c0-0.jsonl")
    for op, f in enumerate(("initialise", "txn")):
        assert workload_runs(tmp_path) is None
        writer.complete(Outcome.OK, 0, op, f, None)
    assert workload_runs(tmp_path) == history.parent


def test_ctrl_c_while_the_cluster_starts_ends_it_and_leaves_nothing(tmp_path):
    for attempt in map(str, range(5)):
        process = start(tmp_path / attempt, "run", "--time", "600", *SMALL, program=JUDGED_HERE)
        log = until(lambda place=tmp_path / attempt: next(place.glob("*/*/logs/n1/server.log"), None))
        process.send_signal(signal.SIGINT)
        code, out, err = finish(process)
        run_dir = log.parents[2]
        if not (run_dir / "verdict.json").exists():  # else this process has paused until the workload had begun
            break
    assert code == 2
    assert "stopped before the workload began" in " ".join((out + err).split())
    assert processes_of(run_dir) == []
    assert not run_dir.exists()


@pytest.mark.parametrize(
    ("signals", "program"),
    [((signal.SIGINT, signal.SIGINT), JUDGED_HERE), ((signal.SIGHUP,), (str(FENCEPOST),))],
    ids=["Ctrl-C twice", "SIGHUP, with Spark"],
)
def test_a_signal_to_leave_leaves_at_once_and_leaves_nothing(tmp_path, signals, program):
    for attempt in map(str, range(5)):
        process = start(tmp_path / attempt, "run", "--time", "600", *SMALL, program=program)
        run_dir = until(lambda place=tmp_path / attempt: workload_runs(place))
        for at, number in enumerate(signals):
            if at:  # two that are pending at once are one
                read_until(process, "stopping:")
            process.send_signal(number)
        code, _, _ = finish(process)
        if not (run_dir / "verdict.json").exists():  # else this process has paused until all was over by the first signal
            break
    assert code == 130
    until(lambda: not processes_of(run_dir))
    assert not (run_dir / "data").exists()


def test_why_a_broker_does_not_start_is_quoted(tmp_path):
    """Each setting is one that Kafka knows, and only the broker sees that the two do not go together."""
    code, out, err = fencepost(tmp_path, "run", "--time", "8", *SMALL, "--broker-setting", "replica.lag.time.max.ms=100")
    assert code == 254
    assert "replica.fetch.wait.max.ms should always be less" in " ".join((out + err).split())


def test_a_campaign_with_mistakes_starts_nothing(tmp_path):
    campaign = tmp_path / "wrong.toml"
    nemesis = '[[test.nemesis]]\nkind = "kill"\ntagret = "leader"\n'
    campaign.write_text(f'[[test]]\nname = "a"\ntime = 3\n[test.workload]\nkind = "transactoins"\n{nemesis}')
    code, out, err = fencepost(tmp_path / "results", "campaign", str(campaign))
    assert code == 254
    text = " ".join((out + err).split())
    for mistake in ("time_s", "transactions", "target"):
        assert f'did you mean "{mistake}"' in text, text
    assert not list((tmp_path / "results").glob("*/*"))


def test_a_machine_without_java_is_reported(tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("unshare", "nsenter", "sh", "env"):
        program = subprocess.run(["which", tool], capture_output=True, text=True, check=False).stdout.strip()
        if program:
            (bare / tool).symlink_to(program)
    env = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    code, out, err = fencepost(
        tmp_path / "results", "run", *SMALL, PATH=str(bare), JAVA_HOME="", **{k: env[k] for k in ("HOME",) if k in env}
    )
    text = out + err
    assert code == 254
    assert text.count("no Java 17") == 1
    assert "Traceback" not in text
    assert not list((tmp_path / "results").glob("*/*"))
