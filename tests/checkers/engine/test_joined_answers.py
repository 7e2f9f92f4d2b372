"""A joined log gives the answers of its partitions, row by row and edge by edge."""

import json
import re
from collections import defaultdict
from functools import partial
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.histories import History
from support.judging import judge_here
from support.random_histories import moving_history, open_history, varied_contract, varied_history

from fencepost.checkers.anomalies import consecutive_reads, producer_order
from fencepost.checkers.engine import job
from fencepost.checkers.engine.answers import PartitionResult
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.graph import edge_filter
from fencepost.checkers.graph.edges import EDGES, FIRSTS, JOINED_EDGES, LATEST, TIME_COLUMNS, decode
from fencepost.checkers.graph.joined_messages import COLUMNS, columns, holds_lists, joined
from fencepost.checkers.history.source import from_message
from fencepost.checkers.model.results import ROW_NUMBERS
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views import log, partition_progress
from fencepost.harness.api import record_ids

PROCESSES = 20  # of a history
WRITER, READER = 0, 5
PARTITION_CHECKS = [check for check in installed_checks()[0] if check.scope == "partition"]


def judged(monkeypatch, folder, ops, contract, together):
    """The document, the findings, and what left the processes that judged partitions; together: some by joined logs."""
    made = []

    def kept(history, questions, judge=job._judged_here):
        made.extend(judge(history, questions))
        return made

    with monkeypatch.context() as patched:
        patched.setattr(job, "_judged_here", kept)
        if not together:
            patched.setattr(job, "joinable", lambda *_: [])
        document = judge_here(folder, ops, contract)
    del document["timing"]
    return document, pq.read_table(folder / "anomalies.parquet").to_pylist(), made


def summed(made):
    """All that partitions say, without a word of which were judged together."""
    results = sorted((some for some in made if isinstance(some, PartitionResult)), key=lambda some: some.partition)
    names = sorted({name for some in results for name in (some.partition, *some.others)})
    combined = {check.name: job._combined(check.name, results) for check in PARTITION_CHECKS}
    counts = [sum(values) for values in zip(*(vars(some.counts).values() for some in results), strict=True)]
    unsent = sorted(v for some in results for v in some.unsent.tolist())
    return {
        "results": {name: (some.compared, some.lacking, some.more, some.error) for name, some in combined.items()},
        "rows": {name: grouped(some.rows, name) for name, some in combined.items()},
        "counts": counts,
        "unsent": unsent,
        "unseen": sum(some.unseen for some in results).tolist(),
        "edges": sorted(edges(made, names)),
        "to driver": to_driver(results),
    }


def grouped(rows, name):
    """Rows, those of each cause together; the number of a cause counts only where findings lie in several partitions."""
    across = next(check.across for check in PARTITION_CHECKS if check.name == name)
    causes = defaultdict(list)
    for values in zip(*rows.values(), strict=True):
        row = dict(zip(rows, values, strict=True))
        key = row["cause"] if across else (row["partition"], row["cause"])
        causes[key].append(tuple(row[column] for column in ("partition", *ROW_NUMBERS[1:], "role")))
    groups = {key: sorted(some) for key, some in causes.items()}
    return groups if across else sorted(groups.values())


def edges(made, names):
    """Every edge, and every entry of the lists, with its partition."""
    messages = [(some.partition, some.content) for some in made if getattr(some, "name", "") == EDGES]
    placed = [(NONE, some.content) for some in made if getattr(some, "name", "") == JOINED_EDGES]
    for message in [*joined(messages, {name: number for number, name in enumerate(names)}), *placed]:
        part = columns(message)
        assert not holds_lists(part) or (np.diff(part["place"]) >= 0).all()
        yield from zip(*(part[name].tolist() for name in COLUMNS), strict=True)


def to_driver(results):
    """What goes to the driver, as the driver takes it."""
    told, best = defaultdict(list), {FIRSTS: {}, LATEST: {}}
    for name, message in (sent for some in results for sent in some.to_driver):
        if name in best:
            pick = min if name == FIRSTS else max
            for op, time in zip(*(decode(message, TIME_COLUMNS)[column].tolist() for column in TIME_COLUMNS), strict=True):
                best[name][op] = pick(best[name].get(op, time), time)
        else:
            told[name] += [json.dumps(row, sort_keys=True) for row in from_message(message).to_pylist()]
    return best, {name: sorted(rows) for name, rows in told.items()}


def read_back(history, rng, count):
    """So many histories, with a final read in most of them: partitions without a complete one are judged alone."""
    made = []
    while len(made) < count:
        ops = history(rng)
        if any(op["f"] == "final-read" for op in ops) or rng.random() < 0.1:
            made.append(ops)
    return made


def laid_together(histories):
    """Some histories as one, at one time, with processes and partitions of their own."""
    ops = [op for number, some in enumerate(histories) for op in map(partial(apart, number), some) if op["f"] != "settle"]
    h = History()
    h.now = 1 + max(op["time"] for op in ops)
    h.settle(
        {name: (50, 50) if at % 9 else (20, 50) for at, name in enumerate(sorted({mop[1] for op in ops for mop in op["mops"]}))},
        type="info",
    )
    return [{**op, "index": index} for index, op in enumerate(sorted([*ops, *h.ops], key=lambda op: op["time"]))]


def apart(number, op):
    """An operation of the history with a number."""
    processes = PROCESSES * number
    mops = [
        (kind, f"h{number}{partition}", v if v < 0 else v + record_ids.of(processes, 0, 0), *more)
        for kind, partition, v, *more in op["mops"]
    ]
    ident = op["transactional_id"] and f"{op['transactional_id']} of {number}"
    detail = op["detail"] and re.sub(r'"(?=\w+-\d+")', f'"h{number}', op["detail"])
    own = WRITER if op["process"] == READER and number % 3 == 0 else op["process"]
    return {**op, "process": own + processes, "mops": mops, "transactional_id": ident, "detail": detail}


def compare(monkeypatch, folder, ops, contract):
    together, alone = (judged(monkeypatch, folder, ops, contract, which) for which in (True, False))
    assert summed(together[2]) == summed(alone[2])
    assert together[:2] == alone[:2]
    return sum(len(some.others) for some in together[2] if isinstance(some, PartitionResult)), together[0]


def met(document):
    return {row["name"] for row in (*document["properties"], *document["allowed"]) if row["verdict"] == "violated"}


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 60))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("history", [varied_history, moving_history, open_history])
@pytest.mark.parametrize("long", [False, True])
def test_partitions_that_are_judged_together_have_the_answers_that_they_have_alone(tmp_path, monkeypatch, seed, history, long):
    """long: edges are left out, but not where somebody writes who reads; and few records are looked at at once."""
    monkeypatch.setattr(producer_order, "EXAMPLES", 1)
    monkeypatch.setattr(partition_progress, "MANY", 1)
    if long:
        monkeypatch.setattr(edge_filter, "LONG", 0)
        monkeypatch.setattr(edge_filter, "STRETCH", 20)
        for module in (log, consecutive_reads, producer_order):
            monkeypatch.setattr(module, "SLICE", 61)
    rng = Random(f"{seed} {long}")
    _, contract = varied_contract(rng, 0.5 if history is moving_history else 0.0)
    others, document = compare(monkeypatch, tmp_path, laid_together(read_back(history, rng, 25)), contract)
    assert others > 2, "partitions that are judged alone prove nothing"
    assert len(met(document)) > 3, "histories without trouble prove little"
