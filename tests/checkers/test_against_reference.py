"""Spark's answer and the slow, obvious one agree, record by record, on random histories full of trouble.

Many small histories are laid into one file, each with processes and partitions of its own, so that Spark starts few jobs.
"""

import json
from random import Random

import pytest
from support.histories import History, write_history
from support.long_histories import judge_as_long
from support.random_histories import swallow
from support.reference import NAMES, anomalies, by_records

from fencepost.checkers.model.lawful_history import CONTRACT
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import record_id
from fencepost.harness.history.run_directory import open_run

HISTORIES_PER_FILE = 60


def troubled(rng, number):
    """A small random history in partitions and processes of its own; nothing in it need make sense."""
    h = History()
    h.now += number * 1_000_000_000
    base, partitions = number * 8, [f"h{number}-{p}" for p in range(rng.randint(1, 3))]
    free = {partition: rng.sample(range(40), 40) for partition in partitions}
    orderly = rng.random() < 0.7
    for partition in partitions:
        if orderly:
            free[partition].sort(reverse=True)
    contested = Random(number)  # draws of its own
    ident = {"transactional_id": f"h{number}"} if contested.random() < 0.5 else {}
    for _ in range(rng.randint(1, 7)):
        while ident and contested.random() < 0.5:
            type = contested.choice(["ok", "ok", "ok", "info"])
            h.add(base + contested.randrange(3), "initialise", type=type, **ident)
        sends = {
            p: [free[p].pop() if rng.random() < 0.9 else None for _ in range(rng.randint(1, 2))]
            for p in partitions
            if rng.random() < 0.7
        }
        type = rng.choice(["ok", "ok", "ok", "fail", "info"])
        cut = type == "info" and rng.random() < 0.5
        extra = {"end": None, "decided": None} if cut else {"decided": None} if type == "info" and rng.random() < 0.3 else {}
        index = h.txn(base + rng.randrange(3), sends, type, **extra, **ident)
        if ident and contested.random() < 0.4 and h.ops[index]["decided"]:  # others come between its records and its commit
            h.ops[index] |= {"decided": h.ops[index]["decided"] + 4_000_000}
            h.ops[index]["end"] = h.ops[index]["end"] and h.ops[index]["end"] + 5_000_000
        if rng.random() < 0.1 and h.ops[index]["decided"]:
            h.ops[index]["decided"] += rng.randint(1, 5) * 1_000_000
    sent = [mop for op in h.ops for mop in op["mops"]]
    for reader in range(base + 3, base + 6):
        level = rng.choice(["read_committed", "read_uncommitted"])
        for _ in range(rng.choice([1, 1, 2])):
            h.poll(reader, pick(rng, sent, partitions, base), level)
    finals(rng, h, sent, partitions, base)
    if rng.random() < 0.2:
        swallow(rng, h.ops)
    if contested.random() < 0.2:
        deny(contested, h.ops)
    return h.ops


def deny(rng, ops):
    """No reader at read_committed gets any record of one transaction whose commit returned ok."""
    committed = [op for op in ops if op["f"] == "txn" and op["type"] == "ok"]
    denied = {mop[2] for mop in rng.choice(committed)["mops"]} if committed else set()
    for op in ops:
        if op["isolation"] == "read_committed":
            op["mops"] = [mop for mop in op["mops"] if mop[0] == 0 or mop[2] not in denied]


def pick(rng, sent, partitions, base):
    """Mostly what was sent, where it was acknowledged; sometimes elsewhere, twice, or made up."""
    got = {partition: [] for partition in partitions}
    for _, partition, v, offset, *_ in sent:
        for _ in range(2 if rng.random() < 0.05 else 1):
            if rng.random() < 0.75:
                where = partition if rng.random() < 0.97 else rng.choice(partitions)
                place = offset if offset is not None and rng.random() < 0.95 else rng.randrange(45)
                got[where].append((place, v))
    if rng.random() < 0.1:
        got[rng.choice(partitions)].append((rng.randrange(45), record_id(base + 7, 999, 0)))
    return got


def finals(rng, h, sent, partitions, base):
    """Final reads at both levels with honest processes; all complete at read_committed, or none at all."""
    if rng.random() < 0.25:
        return
    for process, isolation in ((base + 6, "read_committed"), (base + 7, "read_uncommitted")):
        h.poll(process, pick(rng, sent, partitions, base), isolation, final=True, role="final")
        detail = json.dumps({partition: [0, 50, 50] for partition in partitions})
        h.add(process, "final-read", isolation=isolation, final=True, role="final", detail=detail)


def settled(now):
    """The harness' last look at two partitions that hold nothing else; one is stuck."""
    h = History()
    h.now = now
    h.settle({"idle-0": (4, 9), "idle-1": (9, 9)}, type="info")
    return h.ops


@pytest.mark.parametrize(
    ("seed", "short"),
    [(0, True), (5, False), *(pytest.param(seed, seed % 2 == 0, marks=pytest.mark.nightly) for seed in (2, 3, 4))],
)
def test_the_checker_agrees_with_the_slow_reference_on_random_histories(spark, tmp_path, monkeypatch, seed, short):
    """Scanned by the driver as short histories are, or by the executors as long ones are."""
    import pyarrow.parquet as pq

    if not short:
        judge_as_long(monkeypatch)
    rng = Random(seed)
    ops = [op for number in range(HISTORIES_PER_FILE) for op in troubled(rng, number)]
    ops.sort(key=lambda op: op["time"])
    ops += settled(ops[-1]["time"] + 1_000_000)
    (tmp_path / "plan.json").write_text(json.dumps({"contract": CONTRACT}))
    write_history(tmp_path, ops)
    judge(open_run(tmp_path), spark=spark)
    expected, got = anomalies(ops), by_records(pq.read_table(tmp_path / "anomalies.parquet").to_pylist(), ops)
    assert all(expected[name] for name in NAMES), "a seed without trouble of some kind proves little"
    for name in NAMES:
        assert got[name] == expected[name], name
