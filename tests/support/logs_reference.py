"""The checks of logs once more, as plain loops over rows: slow and obvious.

Each twin takes rows of all replicas (dicts as in `stored.parquet`) and the operations, and returns places (partition, offset).
"""

from __future__ import annotations

import re
from collections import Counter

from fencepost.harness.api import record_ids

STATE_LOG = "__transaction_state-"
MARKERS = ("COMMIT", "ABORT")
FOLLOWING = {
    None: {"Empty", "removed"},
    "Empty": {"Empty", "Ongoing", "PrepareAbort", "removed", "Dead"},
    "Ongoing": {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"},
    "PrepareCommit": {"PrepareCommit", "CompleteCommit"},
    "PrepareAbort": {"PrepareAbort", "CompleteAbort"},
    "CompleteCommit": {"CompleteCommit", "Empty", "Ongoing", "PrepareAbort", "removed", "Dead"},
    "CompleteAbort": {"CompleteAbort", "Empty", "Ongoing", "PrepareAbort", "removed", "Dead"},
    "Dead": {"Dead", "removed"},
    "PrepareEpochFence": {"PrepareEpochFence", "PrepareAbort"},
    "removed": {"removed", "Empty"},
}
OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort"}


def logs_of(rows, states=False):
    """(node, partition) -> rows in order."""
    logs = {}
    for row in rows:
        if row["kind"] != "log" and row["partition"].startswith(STATE_LOG) == states:
            logs.setdefault((row["node"], row["partition"]), []).append(row)
    return {key: sorted(log, key=lambda row: row["offset"]) for key, log in logs.items()}


def one_of_each(rows, states=False):
    """partition -> the log that ends last."""
    longest = {}
    for (_, partition), log in sorted(logs_of(rows, states).items()):
        if partition not in longest or log[-1]["last_offset"] > longest[partition][-1]["last_offset"]:
            longest[partition] = log
    return longest


def sequences(rows):
    """Anomaly -> places, of the three anomalies of sequence numbers."""
    found = {"sequence-gap": set(), "sequence-repetition": set(), "sequence-start": set()}
    for (_, partition), log in logs_of(rows).items():
        last, batches, known = {}, set(), {}
        for row in log:
            if row["producer_id"] < 0:
                continue
            first, lowest = row["first_offset"], known.get(row["producer_id"], row["producer_epoch"])
            new = lowest >= row["producer_epoch"]
            known[row["producer_id"]] = min(lowest, row["producer_epoch"])
            if row["first_sequence"] < 0 or row["kind"] in MARKERS or first in batches:
                continue
            batches.add(first)
            key, begin = (row["producer_id"], row["producer_epoch"]), row["first_sequence"]
            if key in last:
                wanted = (last[key] + 1) % (1 << 31)
                ahead = (begin - wanted) % (1 << 31)
                if ahead:
                    found["sequence-gap" if ahead < 1 << 30 else "sequence-repetition"].add((partition, row["offset"]))
            elif begin and (log[0]["first_offset"] == 0 or not new):
                found["sequence-start"].add((partition, row["offset"]))
            last[key] = (begin + row["last_offset"] - first) % (1 << 31)
    return found


def records_of_ids(rows):
    """Transactional id -> records of the coordinators' logs, in order."""
    ids = {}
    for log in one_of_each(rows, states=True).values():
        for row in log:
            ids.setdefault(row["state"]["transactional_id"], []).append(row)
    return ids


def transactions(rows):
    """(producer id, begun epoch, epoch of the marker, COMMIT, ABORT or None, whether all markers were written, partitions)."""
    found = []
    for records in records_of_ids(rows).values():
        before = None
        for at, row in enumerate(records):
            state, kind = row["state"], row["kind"]
            rest = [later["kind"] for later in records[at + 1 :] if later["kind"] != kind]
            again = before and before["kind"] == kind and _same_producer(before, row)
            if kind.startswith("Prepare") and not again:
                complete = bool(rest) and rest[0].startswith("Complete")
                begun = before["state"]["producer_epoch"] if before else state["producer_epoch"]
                word = "COMMIT" if kind.endswith("Commit") else "ABORT"
                found.append((state["producer_id"], begun, state["producer_epoch"], word, complete, state["partitions"]))
            if kind == "Ongoing" and (at + 1 == len(records) or records[at + 1]["kind"] not in (*OPEN, "PrepareEpochFence")):
                found.append((state["producer_id"], state["producer_epoch"], None, None, False, state["partitions"]))
            before = row
    return found


def _same_producer(one, other):
    return all(one["state"][name] == other["state"][name] for name in ("producer_id", "producer_epoch"))


def wrong_markers(rows):
    """Partitions and producer ids whose markers are not, one by one and some of them again, what was decided. The coordinators'
    logs have to be whole."""
    logs, found = one_of_each(rows), set()
    keys, decided = {}, {}
    for partition, log in logs.items():
        for row in log:
            if row["kind"] in MARKERS:
                keys.setdefault((partition, row["producer_id"], row["producer_epoch"]), []).append(row["kind"][0])
    for producer, _, epoch, word, complete, partitions in transactions(rows):
        for partition in partitions:
            if word and partition in logs:
                decided.setdefault((partition, producer, epoch), []).append(word[0] + ("+" if complete else "*"))
    for partition, log in logs.items():
        highest = {}
        for row in log:
            if row["kind"] in MARKERS:
                producer = row["producer_id"]
                if row["coordinator_epoch"] < highest.get(producer, -1):
                    found.add((partition, producer))
                highest[producer] = max(highest.get(producer, -1), row["coordinator_epoch"])
    for key in keys.keys() | decided.keys():
        if not re.fullmatch("".join(decided.get(key, [])), "".join(keys.get(key, []))):
            found.add(key[:2])
    return found


def late_records(rows):
    """Partitions and producer ids with more stretches of records than transactions, or with a transaction on both sides of a
    marker."""
    begun, found = Counter(), set()
    known = {row["state"]["producer_id"] for records in records_of_ids(rows).values() for row in records}
    for producer, epoch, *_, partitions in transactions(rows):
        for partition in partitions:
            begun[partition, producer, epoch] += 1
    for partition, log in one_of_each(rows).items():
        stretches, before, ended = Counter(), {}, {}
        for row in log:
            producer = row["producer_id"]
            if not row["transactional"] or producer not in known:
                continue
            if row["kind"] in MARKERS:
                epoch, ops = before.get(producer, (None, set()))
                ended[producer] = {*ended.get(producer, ()), *((epoch, op) for op in ops)}
                before[producer] = (None, set())
                continue
            epoch, ops = before.get(producer, (None, set()))
            if epoch != row["producer_epoch"]:
                stretches[producer, row["producer_epoch"]] += 1
            op = None if row["v"] is None else record_ids.operation_key_of(row["v"])
            if (row["producer_epoch"], op) in ended.get(producer, ()) and op is not None:
                found.add((partition, producer))
            before[producer] = (row["producer_epoch"], {*ops, op})
        found |= {
            (partition, producer) for (producer, epoch), count in stretches.items() if count > begun[partition, producer, epoch]
        }
    return found


def unlawful_states(rows):
    """Places of records that must not follow the one before of their transactional id."""
    found = set()
    for records in records_of_ids(rows).values():
        before, former, left, highest, last = None, None, set(), -1, None
        for row in records:
            state, kind = row["state"], row["kind"]
            wrong = kind not in FOLLOWING[before]
            if kind != "removed":
                if former is None or (last is not None and state["producer_id"] != last["producer_id"]):
                    wrong |= state["producer_epoch"] != 0
                elif last is not None:
                    wrong |= state["producer_epoch"] < last["producer_epoch"]
            if former is not None:
                same = state["producer_id"] == former["producer_id"]
                wrong |= same and state["producer_epoch"] < former["producer_epoch"]
                given = kind.startswith("Complete") and state["producer_id"] == former["next_producer_id"]
                wrong |= not same and kind not in ("Empty", "removed") and before != "removed" and not given
                wrong |= not same and kind == "Empty" and before != "removed" and highest < 32766
                if not same:
                    left.add(former["producer_id"])
                    wrong |= state["producer_id"] in left and state["producer_id"] >= 0 and before != "removed"
                wrong |= same and before in OPEN and kind == "Ongoing" and state["producer_epoch"] != former["producer_epoch"]
                if before == "Ongoing" and kind in OPEN and kind in FOLLOWING[before]:
                    wrong |= not set(former["partitions"]) <= set(state["partitions"])
                    wrong |= kind != "Ongoing" and len(state["partitions"]) > len(former["partitions"])
            if wrong:
                found.add((row["partition"], row["offset"]))
            before, former = kind, state
            if kind != "removed":
                last, highest = state, max(highest, state["producer_epoch"])
    return found


def divergences(rows):
    """Places that two replicas have otherwise, or only one has, below the watermarks of both."""
    marks = {(row["node"], row["partition"]): (row["offset"], row["last_offset"]) for row in rows if row["kind"] == "log"}
    logs, found = {**logs_of(rows), **logs_of(rows, states=True)}, set()
    for partition in {partition for _, partition in marks}:
        nodes = sorted(node for node, of in marks if of == partition and marks[node, of][1] > 0)
        best = max(nodes, key=lambda node: (marks[node, partition][1], -nodes.index(node)))
        for node in nodes:
            one, other = marks[best, partition], marks[node, partition]
            low, high = max(one[0], other[0]), min(one[1], other[1])
            mine, others = (
                {row["offset"]: {**row, "node": ""} for row in logs.get((which, partition), ()) if low <= row["offset"] < high}
                for which in (best, node)
            )
            found |= {(partition, offset) for offset in mine.keys() | others.keys() if mine.get(offset) != others.get(offset)}
    return found


def lower_leader_epochs(rows):
    """Places of batches with a lower leader epoch than one before them in their log; an older message format begins anew."""
    found = set()
    for states in (False, True):
        for (_, partition), log in logs_of(rows, states).items():
            highest, batches = -1, set()
            for row in log:
                if row["kind"] == "damaged batch" or row["first_offset"] in batches:
                    continue
                batches.add(row["first_offset"])
                if 0 <= row["leader_epoch"] < highest:
                    found.add((partition, row["offset"]))
                highest = -1 if row["leader_epoch"] < 0 else max(highest, row["leader_epoch"])
    return found


def shared_ids(rows, ops):
    """Producer ids of two transactional ids."""
    owners = {}
    for records in records_of_ids(rows).values():
        for row in records:
            owners.setdefault(row["state"]["producer_id"], set()).add(row["state"]["transactional_id"])
    names = {op["process"]: op["transactional_id"] for op in ops if op["transactional_id"] is not None}
    for log in logs_of(rows).values():
        for row in log:
            if row["v"] is not None and row["producer_id"] >= 0:
                owners.setdefault(row["producer_id"], set()).add(names[record_ids.process_of(row["v"])])
    return {producer for producer, some in owners.items() if len(some) > 1 and producer >= 0}


def unlogged(rows, ops):
    """Partitions and producer ids with more acknowledged decisions than logged ones. The coordinators' logs have to be whole."""
    logged, told = Counter(), {}
    answered = {(op["process"], op["op"]): op["intent"].upper() for op in ops if op["f"] == "txn" and op["type"] == "ok"}
    for producer, epoch, _, word, _, partitions in transactions(rows):
        for partition in partitions:
            logged[partition, producer, epoch, word] += 1
    for partition, log in one_of_each(rows).items():
        seen = set()
        for row in reversed(log):
            if row["v"] is None:
                continue
            op = record_ids.split_record_id(row["v"])[:2]
            if op in answered and op not in seen:
                seen.add(op)
                told.setdefault((partition, row["producer_id"], row["producer_epoch"], answered[op]), set()).add(op)
    found = {key[:2] for key, some in told.items() if len(some) > logged[key]}
    returned = Counter(op["transactional_id"] for op in ops if op["f"] == "initialise" and op["type"] == "ok")
    for name, records in records_of_ids(rows).items():
        given = {
            tuple(row["state"][key] for key in ("producer_id", "producer_epoch")) for row in records if row["kind"] == "Empty"
        }
        if len(given) < returned[name]:
            found.add((STATE_LOG, records[-1]["state"]["producer_id"]))
    return found
