"""The checks of logs once more, as plain loops over rows: slow and obvious.

Each twin takes rows of all replicas (dicts as in `stored.parquet`) and the operations, and returns places (partition, offset).
"""

from __future__ import annotations

import json
import re
from collections import Counter

from fencepost.harness.api import record_ids

STATE_LOG = "__transaction_state-"
MARKERS = ("COMMIT", "ABORT")
OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort"}
CLOSED = {"Empty", "CompleteCommit", "CompleteAbort"}
LAST_EPOCH = 32766


def logs_of(rows, states=False):
    """(node, partition) -> rows in order."""
    logs = {}
    for row in rows:
        if row["kind"] != "log" and row["partition"].startswith(STATE_LOG) == states:
            logs.setdefault((row["node"], row["partition"]), []).append(row)
    return {key: sorted(log, key=lambda row: row["offset"]) for key, log in logs.items()}


def one_of_each(rows, states=False):
    """partition -> the log that ends last, of those whose last batch is of the latest leader."""
    longest = {}
    for (_, partition), log in sorted(logs_of(rows, states).items()):
        ends = [(one[-1]["leader_epoch"], one[-1]["last_offset"]) for one in (log, *filter(None, [longest.get(partition)]))]
        if len(ends) == 1 or ends[0] > ends[1]:
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
    logs have to be whole. Where a log ends below its high watermark any marker may be gone."""
    logs, found = one_of_each(rows), set()
    ends = {partition: log[-1]["last_offset"] + 1 for partition, log in logs.items()}
    cut = {row["partition"] for row in rows if row["kind"] == "log" and row["last_offset"] > ends.get(row["partition"], 0)}
    keys, decided = {}, {}
    for partition, log in logs.items():
        for row in log:
            if row["kind"] in MARKERS:
                keys.setdefault((partition, row["producer_id"], row["producer_epoch"]), []).append(row["kind"][0])
    for producer, _, epoch, word, complete, partitions in transactions(rows):
        for partition in partitions:
            if word and partition in logs:
                written = complete and partition not in cut
                decided.setdefault((partition, producer, epoch), []).append(word[0] + ("+" if written else "*"))
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


def mixed_markers(rows, ops):
    """The indices of transactions of which the logs that go on have some partitions committed and some aborted, and the number of
    those (by producer id and epoch) with markers in two partitions; no other replica of one of these ends it otherwise."""
    sent = {(op["process"], op["op"]): op["index"] for op in ops if op["f"] == "txn"}
    here = {mop[1] for op in ops for mop in op["mops"] if mop[0] == 0}
    on_replicas, whole = {}, {}
    for (_, partition), log in logs_of(rows).items():
        for (index, *_), kinds in _ends(log, sent).items():
            on_replicas.setdefault((index, partition), set()).update(kinds if partition in here else ())
    for partition, log in one_of_each(rows).items():
        for key, kinds in _ends(log, sent).items():
            if partition in here and len(kinds) == 1:
                whole.setdefault(key, {})[partition] = next(iter(kinds))
    several = {key: ends for key, ends in whole.items() if len(ends) > 1}
    mixed = {
        key[0]
        for key, ends in several.items()
        if len(set(ends.values())) > 1 and all(len(on_replicas[key[0], partition]) == 1 for partition in ends)
    }
    return mixed, len(several)


def _ends(log, sent):
    """(operation, producer id, epoch) -> the kinds of the first markers behind its records in a log."""
    found = {}
    for at, row in enumerate(log):
        if row["v"] is not None and row["transactional"] and row["producer_id"] >= 0:
            index = sent.get(record_ids.split_record_id(row["v"])[:2])
            own = [other["kind"] for other in log[at:] if other["producer_id"] == row["producer_id"]]
            behind = [kind for kind in own if kind in MARKERS]
            if index is not None and behind:
                found.setdefault((index, row["producer_id"], row["producer_epoch"]), set()).add(behind[0])
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
    """Places of records that no coordinator may log behind those before of their transactional id.

    What it keeps in memory is one of its records, or none: the last one that it did not take back. Each record is allowed by one
    of those that it may keep; then it keeps the new one, or the same as before.
    """
    found = set()
    for records in records_of_ids(rows).values():
        kept = [None]
        for at, row in enumerate(records):
            last = at - 1 if at else None
            allowing = [of for of in kept if _may_log(records, of, at)]
            if last not in allowing:
                allowing = [of for of in allowing if not _is_sure(rows, records, range(0 if of is None else of + 1, at), of, at)]
            if not allowing:
                found.add((row["partition"], row["offset"]))
                allowing = [last]
            kept = [*allowing, at]
    return found


def _may_log(records, of, at):
    """Whether record `at` may follow while record `of` is kept (None: none)."""
    kind, state = records[at]["kind"], records[at]["state"]
    held = None if of is None else records[of]
    before = None if held is None else held["kind"]
    if kind == "removed":
        return before in {None, "removed", "Dead", *CLOSED}
    if kind == "Dead":
        return before in CLOSED
    begins = state["producer_epoch"] == 0 and state["producer_id"] not in {row["state"]["producer_id"] for row in records[:at]}
    if before is None:  # the coordinator keeps a first producer id that it could not log
        return kind == "Empty" and begins and all(row["kind"] == "removed" for row in records[:at])
    if before == "removed":
        return kind == "Empty" and begins
    former = held["state"]
    if state["producer_id"] != former["producer_id"]:
        if kind == "Empty":
            return before in CLOSED and begins and former["producer_epoch"] >= LAST_EPOCH
        end = kind.startswith("Complete") and before == kind.replace("Complete", "Prepare")
        return end and former["next_producer_id"] == state["producer_id"] and state["producer_epoch"] == 0
    raised = state["producer_epoch"] - former["producer_epoch"]
    partitions, former_partitions = set(state["partitions"]), set(former["partitions"])
    if kind == "Empty":
        return before in CLOSED and raised in (0, 1) and former["producer_epoch"] < LAST_EPOCH
    if kind == "Ongoing":
        return raised == 0 and (before in CLOSED or (before == "Ongoing" and former_partitions <= partitions))
    if kind == "PrepareCommit":
        return before == "Ongoing" and raised in (0, 1) and partitions == former_partitions
    if kind == "PrepareAbort" and before in CLOSED:
        return not partitions and (raised == 1 or (raised == 0 and former["producer_epoch"] > LAST_EPOCH))
    if kind == "PrepareAbort":
        return before in ("Ongoing", "PrepareEpochFence") and raised >= 0 and partitions == former_partitions
    if kind == "PrepareEpochFence":
        return before == "Ongoing"
    return before == kind.replace("Complete", "Prepare") and raised == 0


def _logged(row):
    """When a coordinator's record was logged: what removes an id has the time of its row alone."""
    return row["timestamp"] if row["state"]["updated"] < 0 else row["state"]["updated"]


def _is_sure(rows, records, between, of, at):
    """Whether something was written that one of the records between allows alone, before record `at`."""
    held = None if of is None else records[of]
    end, earlier = _logged(records[at]), of
    while earlier is not None and records[earlier]["kind"] == "Ongoing":
        earlier = earlier - 1 if earlier else None
    begin = -1 if earlier is None else _logged(records[earlier])
    for number in between:
        kind, state = records[number]["kind"], records[number]["state"]
        since, partitions, kinds = _logged(records[number]), set(state["partitions"]), set()
        if kind == "Ongoing":
            kinds, since = {"record"}, begin
            partitions -= set(held["state"]["partitions"]) if held and held["kind"] == "Ongoing" else set()
        elif kind == "Empty" and (held is None or not _same_producer(held, records[number])):
            kinds, partitions = {"record", *MARKERS}, {row["partition"] for row in rows}
        elif kind.startswith("Prepare"):
            kinds = {kind.removeprefix("Prepare").upper()}
        for log in one_of_each(rows).values():
            for row in log:
                own = (row["producer_id"], row["producer_epoch"]) == (state["producer_id"], state["producer_epoch"])
                if own and row["kind"] in kinds and row["partition"] in partitions and since <= row["timestamp"] <= end:
                    return True
    return False


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
    names = {(op["process"], op["op"]): op["transactional_id"] for op in ops if op["transactional_id"] is not None}
    for log in logs_of(rows).values():
        for row in log:
            if row["v"] is not None and row["producer_id"] >= 0:
                owners.setdefault(row["producer_id"], set()).add(names[record_ids.split_record_id(row["v"])[:2]])
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


def decided(rows, ops, types=("info",)):
    """The indices of transactions of these outcomes that the logs have aborted, and of those that they have committed."""
    unknown = {(op["process"], op["op"]): op for op in ops if op["f"] == "txn" and op["type"] in types}
    ends = {op["index"]: set() for op in unknown.values()}
    places, logs = {}, logs_of(rows)
    for (node, partition), log in logs.items():
        for row in log:
            process, op, _ = record_ids.split_record_id(row["v"]) if row["v"] is not None else (None, None, None)
            if (process, op) in unknown and row["transactional"] and _was_sent(unknown[process, op], partition, row["v"]):
                own = [other for other in log if other["kind"] in MARKERS and other["producer_id"] == row["producer_id"]]
                behind = [other for other in own if other["offset"] > row["offset"]][:1]
                kind = behind[0]["kind"] if behind else None
                ends[unknown[process, op]["index"]].add(kind)
                coordinators = [other["coordinator_epoch"] for other in own]
                sure = kind == "COMMIT" and behind[0]["producer_epoch"] - row["producer_epoch"] in (0, 1)
                sure &= coordinators == sorted(coordinators)
                places.setdefault((partition, row["v"]), []).append((node, row["offset"], sure))
    aborted = sorted(index for index, kinds in ends.items() if "ABORT" in kinds and "COMMIT" not in kinds)
    return aborted, sorted(op["index"] for op in unknown.values() if _committed_by(op, ops, places, logs))


def _was_sent(op, partition, v):
    """Whether an operation sent a record to a partition: programs and connectors copy it elsewhere."""
    return any(mop[:3] == (0, partition, v) for mop in op["mops"])


def _committed_by(op, ops, places, logs):
    """Whether the logs have committed a transaction of unknown outcome."""
    sends = [mop for mop in op["mops"] if mop[0] == 0]
    called = op["intent"] != "abort" and (op["decided"] is not None or op["end"] is None)
    return called and bool(sends) and all(_is_committed(mop, ops, places, logs) for mop in sends)


def _is_committed(mop, ops, places, logs):
    """Whether all logs of its partition have a record at one place, committed, where it was acknowledged, if it was: without a
    final read it has to be."""
    _, partition, v, acknowledged, *_ = mop
    found = places.get((partition, v), [])
    nodes = [node for node, of in logs if of == partition]
    ends = [
        json.loads(row["detail"])[partition][1]
        for row in ops
        if row["f"] == "final-read" and row["isolation"] == "read_committed" and partition in json.loads(row["detail"])
    ]
    return (
        sorted(node for node, *_ in found) == sorted(nodes)
        and all(sure for *_, sure in found)
        and len({offset for _, offset, _ in found}) == 1
        and acknowledged in ((None, found[0][1]) if ends else (found[0][1],))
        and all(found[0][1] < end for end in ends)
    )
