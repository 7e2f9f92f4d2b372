"""Histories of the small model of Kafka with the logs of its brokers: of transactions of unknown outcome the logs say what the
model knows, nobody lawful is accused by that, and what readers left out of those that were committed is found.
"""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from support.broker_model import ABORTED, COMMITTED, HIDDEN, Flaw
from support.client_model import ModelHistory, Setting, model_history
from support.histories import violated
from support.judging import no_session
from support.model_logs import with_logs

from fencepost.checkers.verdict.opening import view_of
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run

GROUP = {"consumption": "subscribed"}
SETTINGS = {
    "transactions": (Setting(), {}),
    "some outside transactions": (Setting(plain=True), {}),
    "group": (Setting(group=True), GROUP),
    "static members": (Setting(group=True, static=True), GROUP),
}
NIGHTLY_SEEDS, NIGHTLY_FLAW_SEEDS = 80, 60
HIDDEN_SEED = 8  # of a history in which a transaction of unknown outcome is hidden


# --------------------------------------------------------------------------------------------------
# What the model knows
# --------------------------------------------------------------------------------------------------
def unknown(history: ModelHistory) -> list[dict]:
    return [op for op in history.ops if op["f"] == "txn" and op["type"] == "info"]


def sends(op):
    """(partition, identity) of what an operation was to send."""
    return [mop[1:3] for mop in op["mops"] if mop[0] == 0]


def places(history: ModelHistory) -> dict[tuple[str, int], list[tuple[int, str]]]:
    """(partition, identity) -> the offsets of a record in the log, each with what became of it."""
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for partition, log in history.brokers.logs.items():
        for offset, (entry, fate) in enumerate(zip(log, history.brokers.fates(partition)[0], strict=True)):
            if entry.v is not None:
                found.setdefault((partition, entry.v), []).append((offset, fate))
    return found


def decided(history: ModelHistory) -> tuple[set[int], set[int]]:
    """Transactions of unknown outcome that the brokers have aborted, and those that they have committed, by what they did."""
    logs = places(history)
    aborted, committed = set(), set()
    for op in unknown(history):
        fates = [[fate for _, fate in logs.get(send, ())] for send in sends(op)]
        if any(fates) and {fate for some in fates for fate in some} == {ABORTED}:
            aborted.add(op["index"])
        called = op["intent"] == "commit" and (op["decided"] is not None or op["end"] is None)
        if called and fates and all(some in ([COMMITTED], [HIDDEN]) for some in fates):
            committed.add(op["index"])
    return aborted, committed


def left_out(history: ModelHistory) -> set[tuple[str, int]]:
    """Places of what no reader at all got at read_committed of transactions of unknown outcome that were committed."""
    logs, committed = places(history), decided(history)[1]
    got = {mop[1:3] for op in history.ops if op["isolation"] == "read_committed" for mop in op["mops"] if mop[0] == 1}
    own = [sends(op) for op in history.ops if op["index"] in committed]
    return {(send[0], logs[send][0][0]) for some in own if not got.intersection(some) for send in some}


# --------------------------------------------------------------------------------------------------
# Lawful brokers
# --------------------------------------------------------------------------------------------------
def judged(folder, seed, setting, contract):
    history = model_history(seed, setting)
    return history, with_logs(history).judged(folder, None, contract, None)


def accused(folder, name, seeds):
    """Seeds whose history is not valid, or of which the logs do not say what the model knows, with the reason."""
    setting, contract = SETTINGS[name]
    wrong = {}
    for seed in seeds:
        history, document = judged(folder, seed, setting, contract)
        decisions = view_of(open_run(folder), no_session, here=True).view.decisions
        if (set(decisions.aborted.tolist()), set(decisions.committed.tolist())) != decided(history):
            wrong[seed] = f"{decisions}, not {decided(history)}"
        elif violated(document) or (document["verdict"] != "valid" and "was not exercised" not in document["reason"]):
            wrong[seed] = document["reason"]
    return wrong


@pytest.mark.parametrize("name", SETTINGS)
def test_what_lawful_brokers_logged_accuses_nobody(tmp_path, name):
    assert accused(tmp_path, name, [1]) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("name", SETTINGS)
def test_what_lawful_brokers_logged_in_hundreds_of_histories_accuses_nobody(tmp_path, name):
    assert accused(tmp_path, name, range(2, NIGHTLY_SEEDS)) == {}


# --------------------------------------------------------------------------------------------------
# Brokers that hide what they committed
# --------------------------------------------------------------------------------------------------
def overlooked(folder, seed):
    """What was left out, and of that what no `lost-write` is about."""
    history, _ = judged(folder, seed, Setting(flaw=Flaw.HIDES_COMMITTED), {})
    left = left_out(history)
    found = [row for row in pq.read_table(folder / RunFile.ANOMALIES).to_pylist() if row["anomaly"] == "lost-write"]
    return left, left - {(record["partition"], record["offset"]) for row in found for record in row["records"]}


def test_a_transaction_of_unknown_outcome_that_nobody_got_is_lost(tmp_path):
    left, missed = overlooked(tmp_path, HIDDEN_SEED)
    assert left
    assert missed == set()


@pytest.mark.nightly
def test_hundreds_of_histories_lose_what_nobody_got(tmp_path):
    assert {seed: missed for seed in range(NIGHTLY_FLAW_SEEDS) if (missed := overlooked(tmp_path, seed)[1])} == {}
