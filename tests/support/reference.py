"""The anomalies once more, slowly and obviously: plain loops over operations, one partition after the other.

Written from the definitions, not from the checks; the two are compared on random histories. Small differences of wording are
allowed, differences of judgement are not: `anomalies` returns for each name the set of records involved.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from harness.api import record_ids

NAMES = (
    "lost-write",
    "duplicate",
    "aborted-read",
    "dirty-read",
    "torn-transaction",
    "inconsistent-offset",
    "phantom",
    "wrong-partition",
    "order-inversion",
)


def anomalies(ops: Sequence[Mapping[str, Any]]) -> dict[str, set[Any]]:
    """Name -> records: `v`, or (partition, offset) for anomalies of places. Transactional contract; mops are tuples."""
    sends, reads = [], []
    for number, op in enumerate(ops):
        for kind, partition, v, offset, began, ended in op["mops"]:
            if kind == 0:
                sends.append({"op": number, "p": partition, "v": v, "offset": offset, "began": began, "ended": ended})
            else:
                reads.append({"op": number, "p": partition, "v": v, "offset": offset, "ended": ended})
    home = {send["v"]: send for send in sends}
    found: dict[str, set[Any]] = {name: set() for name in NAMES}

    def rc(read: Mapping[str, Any]) -> bool:
        return ops[read["op"]]["isolation"] == "read_committed"

    def status(send: Mapping[str, Any]) -> str:
        return str(ops[send["op"]]["type"])

    here = [read for read in reads if read["v"] in home and home[read["v"]]["p"] == read["p"]]
    for read in reads:
        if read["v"] not in home:
            found["phantom"].add((read["p"], read["offset"]))
        elif home[read["v"]]["p"] != read["p"]:
            found["wrong-partition"].add((read["p"], read["offset"]))
    misplaced = {read["v"] for read in reads if read["v"] in home and home[read["v"]]["p"] != read["p"]}

    complete = defaultdict(set)
    for op in ops:
        if op["f"] == "final-read" and op["type"] == "ok":
            for partition, (_, end, position) in json.loads(op["detail"]).items():
                if position >= end:
                    complete[partition, op["isolation"]].add(op["process"])
    final = {
        read["v"]
        for read in here
        if rc(read) and ops[read["op"]]["final"] and ops[read["op"]]["process"] in complete[read["p"], "read_committed"]
    }
    seen_rc = {read["v"] for read in here if rc(read)}
    proven = {home[v]["op"] for v in seen_rc}

    # every random history has complete read_committed final reads of all partitions, or of none
    judged = {partition for (partition, isolation), who in complete.items() if who and isolation == "read_committed"}
    seen = {read["v"] for read in here}
    place, gone = {}, set()
    for send in sends:
        places = [read["offset"] for read in here if read["v"] == send["v"]]
        place[send["v"]] = min([*places, *([send["offset"]] if send["offset"] is not None else [])], default=None)
    for send in sends:
        acked = send["ended"] is not None or ops[send["op"]]["end"] is None
        promised = status(send) == "ok" or (status(send) == "info" and send["op"] in proven and acked)
        if not promised:
            continue
        if send["p"] in judged:
            lost = send["v"] not in final
        else:
            later = [read["offset"] for read in reads if read["p"] == send["p"] and rc(read)]
            where = place[send["v"]]
            lost = send["v"] not in seen and where is not None and any(where < offset for offset in later)
        if lost and status(send) == "ok":
            gone.add(send["v"])
        if lost and send["v"] not in misplaced:
            found["lost-write"].add(send["v"])

    for v, send in home.items():
        places = {read["offset"] for read in here if read["v"] == v and rc(read)}
        told = {send["offset"]} - {None} if status(send) != "fail" else set()
        told -= {read["offset"] for read in reads if read["p"] == send["p"]}
        if places and len(places | told) > 1:
            found["duplicate"].add(v)
        if status(send) == "fail" and v in seen_rc:
            found["aborted-read"].add(v)
    for read in here:
        writer, began = home[read["v"]]["op"], home[read["v"]]["began"]
        op = ops[writer]
        if began is not None and read["ended"] < began and op["type"] != "fail":
            found["dirty-read"].add(read["v"])
        if rc(read) and op["type"] != "fail":
            never = op["type"] == "info" and op["end"] is not None and op["decided"] is None
            if writer == read["op"] or never or (op["decided"] is not None and read["ended"] < op["decided"]):
                found["dirty-read"].add(read["v"])

    for number in range(len(ops)):
        mine = [send for send in sends if send["op"] == number and send["p"] in judged]
        shown = [send["v"] for send in mine if send["v"] in final]
        missing = [send["v"] for send in mine if send["v"] not in final and send["v"] not in misplaced]
        if shown and missing:
            found["torn-transaction"].update([*shown, *missing])

    at = defaultdict(set)
    for read in reads:
        at[read["p"], read["offset"]].add(read["v"])
    readable = set(at)
    for send in sends:
        where, sure = (send["p"], send["offset"]), status(send) == "ok" or (status(send) == "info" and send["op"] in proven)
        if send["offset"] is not None and send["v"] not in gone and (where in readable or sure):
            at[where].add(send["v"])
    found["inconsistent-offset"] = {where for where, who in at.items() if len(who) > 1}

    there = [send for send in sends if send["v"] not in gone]
    for one, two in combinations(sorted(there, key=lambda send: send["v"]), 2):
        same = one["p"] == two["p"] and record_ids.process_of(one["v"]) == record_ids.process_of(two["v"])
        if same and None not in (place[one["v"]], place[two["v"]]) and place[one["v"]] > place[two["v"]]:
            found["order-inversion"].add(two["v"])  # the one that lies too low
    return found


def by_records(document):
    """Spark's findings in the reference's words."""
    found = {name: set() for name in NAMES}
    for one in document:
        name, records = one["anomaly"], one["records"]
        if name in ("phantom", "wrong-partition", "inconsistent-offset"):
            found[name] |= {(record["partition"], record["offset"]) for record in records}
        elif name == "order-inversion":
            found[name].add(max(record["v"] for record in records))
        elif name == "lost-write":
            found[name] |= {record["v"] for record in records if record["role"] == "missing"}
        elif name in found:
            found[name] |= {record["v"] for record in records}
    return found
