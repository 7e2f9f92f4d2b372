"""`delayed-read` once more, as plain loops over operations, rows of the logs and faults: slow and obvious. Times in seconds."""

from __future__ import annotations

from itertools import pairwise

from fencepost.harness.api import record_ids

SECOND = 1_000_000_000


def delayed_reads(ops, rows, faults):
    """(reader, partition) of all that stopped for 10 s in an outage of another partition. rows: of one replica."""
    called, acked, got = {}, {}, {}
    for op in ops:
        for kind, partition, _, offset, began, ended in op["mops"]:
            if kind == 0:
                called.setdefault(partition, []).append(began)
                if ended is not None and offset is not None:
                    acked.setdefault(partition, []).append((ended, offset))
            elif not op["final"] and op["isolation"] == "read_committed":
                got.setdefault(partition, {}).setdefault(op["process"], []).append((ended, offset))
    found = set()
    for other in called:
        for begin, end in outages(sorted(called[other]), sorted(acked.get(other, ()))):
            for partition in called:
                for reader in got.get(partition, {}) if partition != other else ():
                    if stopped(ops, rows, faults, reader, partition, (begin, end), acked.get(partition, []), got[partition]):
                        found.add((reader, partition))
    return found


def outages(called, acked):
    """Spans in which something was sent and nothing acknowledged for 10 s."""
    times = [time for time, _ in acked]
    spans = []
    for before, after in zip([-1, *times], [*times, max([*called, *times])], strict=True):
        sent = [time for time in called if time > before]
        if sent and after - sent[0] >= 10 * SECOND:
            spans.append((sent[0], after))
    return spans


def stopped(ops, rows, faults, reader, partition, span, acked, got):
    """True if a reader got nothing of a partition for 10 s in a span, although it could have."""
    own = sorted(got[reader])
    for at, (last, _) in enumerate(own):
        position = 1 + max(offset for _, offset in own[: at + 1])
        following = own[at + 1][0] if at + 1 < len(own) else float("inf")
        others = [time for one, some in got.items() if one != reader for time, offset in some if offset >= position]
        shown = [*others, *(time for time, offset in acked if passed(rows, partition, position, offset))]
        if not shown:
            continue
        since = max(last, min(shown), span[0])
        end = since + 10 * SECOND
        if end > min(following, span[1]) or struck(ops, faults, reader, since):
            continue
        signs = sorted([time for time, _ in acked] + [time for one, some in got.items() if one != reader for time, _ in some])
        signs = [since, *(time for time in signs if since <= time <= end), end]
        if any(two - one > 5 * SECOND for one, two in pairwise(signs)):
            continue
        if polled(ops, reader, since, end):
            return True
    return False


def passed(rows, partition, position, acked):
    """True if a record acknowledged there lies above the markers of all transactions up to the next visible record."""
    log = [row for row in rows if row["partition"] == partition and row["kind"] != "log"]
    ends = {}
    for row in log:
        if row["kind"] == "record":
            ends[row["offset"]] = next(
                (
                    (later["offset"], later["kind"])
                    for later in log
                    if later["offset"] > row["offset"]
                    and later["producer_id"] == row["producer_id"]
                    and later["kind"] in ("COMMIT", "ABORT")
                ),
                (float("inf"), None),
            )
    visible = [offset for offset, (_, kind) in ends.items() if offset >= position and kind == "COMMIT"]
    return bool(visible) and acked > max(marker for offset, (marker, _) in ends.items() if offset <= min(visible))


def struck(ops, faults, reader, since):
    """True if a fault may have been about the reader, or there were several."""
    node = next(op["node"] for op in ops if op["process"] == reader)
    around = [
        fault
        for fault in faults
        if fault["injected_ns"] <= since + 10 * SECOND
        and (fault["healed_ns"] is None or fault["healed_ns"] >= since - 10 * SECOND)
    ]
    return len(around) > 1 or any(not fault["targets"] or node in fault["targets"] for fault in around)


def polled(ops, reader, since, end):
    """True if the reader polled ten times, and in the last 5 s got nothing once, or something that was sent after it stopped."""
    began = {(op["process"], op["op"]): op["time"] for op in ops}
    polls = [op for op in ops if op["process"] == reader and op["f"] == "poll" and op["type"] == "ok" and not op["final"]]
    polls = [op for op in polls if op["time"] >= since and op["end"] <= end]
    late = [op for op in polls if op["time"] >= end - 5 * SECOND]
    if len(polls) < 10 or polls[-1]["end"] < end - 5 * SECOND:
        return False
    fresh = [began[record_ids.split_record_id(mop[2])[:2]] > since for op in late for mop in op["mops"]]
    return any(fresh) or any(not op["mops"] for op in late)
