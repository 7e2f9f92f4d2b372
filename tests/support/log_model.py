"""A small model of leaders and transaction coordinators, record by record: a history with the logs of its brokers.

m = LogModel()
m.initialise(0, "a")                       # process 0 gets producer id 0, epoch 0
m.transaction(0, {"t-0": 2, "t-1": 1})     # three records, and their markers
m.judged(tmp_path)                         # the verdict's document
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.anomalies.coordinator_states import unlawful_state, unlogged_answer
from fencepost.checkers.anomalies.leader_epochs import leader_epoch_regression
from fencepost.checkers.anomalies.markers import delayed_marker, late_marker, record_after_marker, wrong_marker
from fencepost.checkers.anomalies.mixed_markers import mixed_markers
from fencepost.checkers.anomalies.producer_ids import producer_id_reuse
from fencepost.checkers.anomalies.replicas import replica_divergence
from fencepost.checkers.anomalies.sequences import sequence_gap, sequence_repetition, sequence_start
from fencepost.harness.api.history import STORED, STRUCTS, schema
from fencepost.harness.api.run import RunFile
from support.histories import History
from support.judging import judge_here

CHECKS = [
    sequence_gap,
    sequence_repetition,
    sequence_start,
    producer_id_reuse,
    wrong_marker,
    mixed_markers,
    record_after_marker,
    late_marker,
    delayed_marker,
    replica_divergence,
    leader_epoch_regression,
    unlawful_state,
    unlogged_answer,
]
STATE_LOG = "__transaction_state-0"
STATE = [column.name for column in STRUCTS["state"]]
EPOCH_MS = 1_700_000_000_000
NOTHING = {"producer_id": -1, "producer_epoch": -1, "first_sequence": -1, "v": None, "coordinator_epoch": -1, "state": None}


class LogModel:
    """The history `h` and the `rows` of the logs of nodes n1 to n3, alike until somebody changes them.

    protocol: 1 (KIP-98: the epoch stays) or 2 (KIP-890: a marker raises it). start: the first sequence number of each epoch.
    """

    def __init__(self, protocol=1, rng=None, start=0):
        self.h, self.rows, self.protocol, self.rng, self.start = History(), [], protocol, rng or Random(0), start
        self.now, self.ids, self.ends, self.numbers, self.given = EPOCH_MS, {}, {}, {}, 0
        self.names, self.coordinator = {}, 0

    # ---- clients ----
    def initialise(self, process, name, type="ok"):
        """A process takes over a transactional id; an open transaction is aborted with a higher epoch."""
        own = self.ids.setdefault(name, {"pid": self.given, "epoch": -1, "open": []})
        if own["epoch"] < 0:
            self.given += 1
        if own["open"]:
            own["epoch"] += 1
            self._decide(name, "Abort", raised=True)
        own["epoch"] += 1
        self.names[process] = name
        self.state(name, "Empty")
        self.h.add(process, "initialise", type=type, transactional_id=name)

    def transaction(self, process, sends, commit=True, answer="ok", end=True, repeat=()):
        """A transaction of so many records to each partition; `end`: it is decided. repeat: partitions that get a marker
        again."""
        name = self.names[process]
        own, epoch = self.ids[name], self.ids[name]["epoch"]
        places, records = {}, []
        for partition, count in sends.items():
            own["open"] = sorted({*own["open"], partition})
            self.state(name, "Ongoing")
            for _ in range(count):
                row = self.record(partition, own["pid"], epoch)
                places.setdefault(partition, []).append(row["offset"])
                records.append((partition, row))
        fields = {"intent": "commit" if commit else "abort", "transactional_id": name}
        self.h.txn(process, places, answer if commit or answer != "ok" else "ok", **fields)
        for partition, row in records:
            row["v"] = self.h.v(partition, row["offset"])
        if end:
            self._decide(name, "Commit" if commit else "Abort", repeat=repeat)

    def _decide(self, name, word, raised=False, repeat=()):
        own = self.ids[name]
        if self.protocol == 2 and not raised:
            own["epoch"] += 1
        self.state(name, f"Prepare{word}")
        for partition in own["open"]:
            producer = {"producer_id": own["pid"], "producer_epoch": own["epoch"]}
            for again in range(2 if partition in repeat else 1):
                self.coordinator += again  # it fails over
                self.append(partition, word.upper(), coordinator_epoch=self.coordinator, sent=True, **producer)
        own["open"] = []
        self.state(name, f"Complete{word}")

    def wear(self, name, epoch):
        """An open transaction of an id is fenced with this epoch, to which fences that could not be logged had raised it
        (KAFKA-9666)."""
        self.ids[name]["open"] = ["t-9"]
        self.state(name, "Ongoing")
        self.ids[name]["epoch"] = epoch
        self._decide(name, "Abort", raised=True)

    # ---- logs ----
    def record(self, partition, producer, epoch, sent=True):
        """A record in a batch of its own."""
        key = (partition, producer, epoch)
        number = self.numbers.get(key, self.start)
        self.numbers[key] = (number + 1) % (1 << 31)
        return self.append(partition, "record", producer_id=producer, producer_epoch=epoch, first_sequence=number, sent=sent)

    def state(self, name, kind, **changes):
        own = self.ids[name]
        values = [name, own["pid"], own["epoch"], -1, -1, 60_000, self.now, self.now, 0, list(own["open"])]
        if kind.startswith("Complete") or kind == "Empty":
            values[-1] = []
        return self.append(STATE_LOG, kind, state={**dict(zip(STATE, values, strict=True)), **changes}, sent=False)

    def append(self, partition, kind, sent, **more):
        """A row at the end of a log."""
        offset = self.ends.get(partition, 0)
        self.ends[partition], self.now = offset + 1, self.now + 1
        row = {
            **NOTHING,
            "partition": partition,
            "offset": offset,
            "kind": kind,
            "leader_epoch": 0,
            "timestamp": self.now,
            **more,
        }
        row |= {"first_offset": offset, "last_offset": offset, "sequence": row["first_sequence"], "transactional": sent}
        row["checksum"] = offset * 31 + 7
        self.rows.append(row)
        return row

    def at(self, partition, offset):
        """The row at a place."""
        return next(row for row in self.rows if (row["partition"], row["offset"]) == (partition, offset))

    def of(self, kind, partition=None):
        """The rows of a kind."""
        return [row for row in self.rows if row["kind"] == kind and partition in (None, row["partition"])]

    def replicas(self, nodes=("n1", "n2", "n3")):
        """The rows of all nodes, with a `log` row for each log."""
        ends = {}
        for row in self.rows:
            ends[row["partition"]] = max(ends.get(row["partition"], 0), row["last_offset"] + 1)
        heads = [
            {
                **NOTHING,
                "partition": partition,
                "offset": 0,
                "kind": "log",
                "leader_epoch": -1,
                "timestamp": -1,
                "first_offset": 0,
            }
            | {"last_offset": end, "sequence": -1, "transactional": False, "checksum": 0}
            for partition, end in ends.items()
        ]
        return [{**row, "node": node} for node in nodes for row in (*heads, *self.rows)]

    def judged(self, folder, rows=None, contract=None, checks=CHECKS, **plan):
        """The verdict's document by the checks of logs, or by others. rows: instead of `replicas()`."""
        rows = self.replicas() if rows is None else rows
        rows = sorted(rows, key=lambda row: (row["partition"], row["offset"], row["kind"] != "log", row["node"]))
        pq.write_table(pa.Table.from_pylist(rows, schema=schema(STORED)), folder / RunFile.STORED)
        return judge_here(folder, self.h.ops, contract, checks, **plan)


def two_producers(protocol=1, start=0):
    """Two producers with three transactions each over two partitions; the last one of each aborts."""
    m = LogModel(protocol, start=start)
    for process in (0, 1):
        m.initialise(process, f"id-{process}")
    for number in range(3):
        for process in (0, 1):
            m.transaction(process, {"t-0": 2, "t-1": 1}, commit=number < 2)
    return m


def random_model(seed):
    """A lawful run of a few producers, with fencings, aborts, markers that were written again, and open transactions."""
    rng = Random(seed)
    m = LogModel(protocol=rng.choice((1, 2)), rng=rng)
    names = [f"id-{number}" for number in range(rng.randint(1, 3))]
    for process, name in enumerate(names):
        m.initialise(process, name)
    following = len(names)
    for _ in range(rng.randint(4, 14)):
        process = rng.choice(sorted(m.names))
        name = m.names[process]
        sends = {f"t-{number}": rng.randint(1, 3) for number in rng.sample(range(3), rng.randint(1, 3))}
        end = rng.random() < 0.85
        repeat = [partition for partition in sends if rng.random() < 0.1] if m.protocol == 1 else []
        m.transaction(process, sends, commit=rng.random() < 0.8, answer="ok" if end else "info", end=end, repeat=repeat)
        if not end or rng.random() < 0.1:
            del m.names[process]
            m.initialise(following, name)
            following += 1
    m.h.final({})
    return m


def violated(document):
    return {row["name"]: row for row in (*document["properties"], *document["allowed"]) if row["verdict"] == "violated"}


def places(folder, name):
    """Places of all findings of an anomaly."""
    rows = pq.read_table(folder / "anomalies.parquet").to_pylist()
    return {(record["partition"], record["offset"]) for row in rows if row["anomaly"] == name for record in row["records"]}


def said(document, name):
    """The sentences of all findings of an anomaly."""
    return " ".join(row["sentence"] for row in document["findings"] if row["anomaly"] == name)
