"""Histories of clients of a small model of Kafka: lawful ones are not accused, and what flawed brokers have surely done is found.

Unlike random histories (`test_random_histories.py`) these follow from what brokers and clients do, step by step, so that nothing
in them contradicts the rest; and the model knows what is really in its logs. The nightly has hundreds of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
from support.broker_model import COMMITTED, PLAIN, Flaw
from support.client_model import ModelHistory, Setting, model_history
from support.histories import violated
from support.judging import judge_here

GROUP = {"consumption": "subscribed"}
SETTINGS = {
    "transactions": (Setting(), {}),
    "some outside transactions": (Setting(plain=True), {}),
    "retention": (Setting(retention=True), {"retention": "1"}),
    "compaction": (Setting(compaction=True), {"compaction": "true"}),
    "group": (Setting(group=True), GROUP),
    "static members": (Setting(group=True, static=True), GROUP),
}
NIGHTLY_SEEDS, NIGHTLY_FLAW_SEEDS = 120, 60


# --------------------------------------------------------------------------------------------------
# What the model knows
# --------------------------------------------------------------------------------------------------
def shown(history: ModelHistory) -> dict[str, Counter[int]]:
    """How often each record is in the log of a partition for read_committed readers."""
    counts = {}
    for partition, log in history.brokers.logs.items():
        fates, _ = history.brokers.fates(partition)
        pairs = zip(log, fates, strict=True)
        counts[partition] = Counter(entry.v for entry, fate in pairs if fate in (COMMITTED, PLAIN) and entry.v is not None)
    return counts


def promised(history: ModelHistory) -> list[tuple[str, int]]:
    """The records of transactions whose commit returned ok."""
    done = [op for op in history.ops if op["f"] == "txn" and op["type"] == "ok" and op["intent"] == "commit"]
    return [(mop[1], mop[2]) for op in done for mop in op["mops"] if mop[0] == 0]


def something_promised_is_hidden(history: ModelHistory) -> bool:
    counts = shown(history)
    return any(not counts[partition][v] for partition, v in promised(history))


def something_is_there_twice(history: ModelHistory) -> bool:
    return any(count > 1 for counts in shown(history).values() for count in counts.values())


def something_stays_open(history: ModelHistory) -> bool:
    return any(history.brokers.fates(partition)[1] < len(log) for partition, log in history.brokers.logs.items())


def an_input_was_processed_twice(history: ModelHistory) -> bool:
    counts = shown(history)
    makers: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for op in history.ops:
        for chain in op["chains"]:
            if any(own[chain["output"]] for own in counts.values()):
                makers.setdefault((chain["partition"], chain["offset"]), set()).add((op["process"], op["op"]))
    return any(len(some) > 1 for some in makers.values())


def the_groups_offset_is_too_low(history: ModelHistory) -> bool:
    done = [op for op in history.ops if op["f"] == "txn" and op["type"] == "ok" and op["intent"] == "commit"]
    offsets = history.brokers.group.offsets
    return any(offsets.get(row["partition"], 0) < row["offset"] for op in done for row in op["offsets"])


PROOFS: dict[Flaw, tuple[Callable[[ModelHistory], bool], set[str]]] = {
    Flaw.LOSES_RECORDS: (something_promised_is_hidden, {"lost-write"}),
    Flaw.REPEATS_RECORDS: (something_is_there_twice, {"duplicate"}),
    Flaw.TURNS_MARKERS: (something_promised_is_hidden, {"lost-write", "false-ack", "torn-transaction", "aborted-read"}),
    Flaw.FORGETS_MARKERS: (something_stays_open, {"lso-stall"}),
    Flaw.PRAISES_ZOMBIES: (something_promised_is_hidden, {"false-ack"}),
    Flaw.LOSES_OFFSETS: (the_groups_offset_is_too_low, {"torn-offset", "offset-regression"}),
    Flaw.ADMITS_FORMER_OWNERS: (an_input_was_processed_twice, {"reprocessed"}),
}
READERS = {  # flaws of which only some readers got anything, so that not every one can be proven
    Flaw.SKIPS_RECORDS: {"poll-skip", "int-poll-skip", "lost-write"},
    Flaw.SHOWS_ABORTED: {"aborted-read"},
    Flaw.PASSES_LSO: {"poll-skip", "aborted-read", "dirty-read"},
    Flaw.ADMITS_ZOMBIES: {"zombie-write", "zombie-commit"},
}
BY_DAY = {**dict.fromkeys(PROOFS, 0), Flaw.PRAISES_ZOMBIES: 3, Flaw.ADMITS_FORMER_OWNERS: 19}  # a seed that proves the flaw


def judged(folder, seed, setting, contract):
    history = model_history(seed, setting)
    return history, judge_here(folder, history.ops, contract)


# --------------------------------------------------------------------------------------------------
# Lawful histories
# --------------------------------------------------------------------------------------------------
def accused(folder, name, seeds):
    """Seeds whose history is not valid, with the reason; all that a lawful one may lack is an occasion."""
    setting, contract = SETTINGS[name]
    documents = {seed: judged(folder, seed, setting, contract)[1] for seed in seeds}
    wrong = {seed: document["reason"] for seed, document in documents.items() if document["verdict"] != "valid"}
    return {seed: reason for seed, reason in wrong.items() if violated(documents[seed]) or "was not exercised" not in reason}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_follows_from_lawful_brokers_is_not_accused(tmp_path, name):
    assert accused(tmp_path, name, [0]) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("name", SETTINGS)
def test_hundreds_of_histories_of_lawful_brokers_are_not_accused(tmp_path, name):
    assert accused(tmp_path, name, range(1, NIGHTLY_SEEDS)) == {}


def test_a_history_follows_from_its_seed():
    first, again, other = (json.dumps(model_history(seed, Setting()).ops) for seed in (1, 1, 2))
    assert first == again != other


# --------------------------------------------------------------------------------------------------
# Flawed brokers
# --------------------------------------------------------------------------------------------------
def of_flaw(flaw):
    group = flaw in (Flaw.LOSES_OFFSETS, Flaw.ADMITS_FORMER_OWNERS)
    return Setting(flaw=flaw, group=group), GROUP if group else {}


def missed(folder, flaw, seeds):
    """(seeds whose history proves the flaw, those of them in which none of the anomalies was found)."""
    proof, names = PROOFS[flaw]
    proven = {}
    for seed in seeds:
        history, document = judged(folder, seed, *of_flaw(flaw))
        if proof(history):
            proven[seed] = set(violated(document))
    return set(proven), {seed for seed, found in proven.items() if not found & names}


@pytest.mark.parametrize("flaw", PROOFS, ids=lambda flaw: flaw.name)
def test_a_flaw_that_the_history_proves_is_found(tmp_path, flaw):
    proven, overlooked = missed(tmp_path, flaw, [BY_DAY[flaw]])
    assert proven
    assert overlooked == set()


@pytest.mark.nightly
@pytest.mark.parametrize("flaw", PROOFS, ids=lambda flaw: flaw.name)
def test_hundreds_of_histories_that_prove_a_flaw_are_found(tmp_path, flaw):
    proven, overlooked = missed(tmp_path, flaw, range(NIGHTLY_FLAW_SEEDS))
    assert proven
    assert overlooked == set()


@pytest.mark.nightly
@pytest.mark.parametrize("flaw", READERS, ids=lambda flaw: flaw.name)
def test_flaws_that_only_some_readers_met_are_found_somewhere(tmp_path, flaw):
    found = set().union(*(violated(judged(tmp_path, seed, *of_flaw(flaw))[1]) for seed in range(NIGHTLY_FLAW_SEEDS)))
    assert found >= READERS[flaw]
