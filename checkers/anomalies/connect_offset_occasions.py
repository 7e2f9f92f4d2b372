"""Occasions of KIP-618's promises about stored offsets, met and violated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from fencepost.checkers.anomalies.connect_occasions import Occasions
from fencepost.checkers.anomalies.source_offsets import source_offset_torn
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.connect_log import ConnectLog, Entry, entries_in
from fencepost.checkers.pipeline.deletions import RECORDS, TopicDeletions
from fencepost.checkers.pipeline.source_log import ABORTED, COMMITTED, PLAIN, SourceLog, entries_of, in_second, of_workers
from fencepost.checkers.pipeline.source_mapping import SourceMapping
from fencepost.checkers.views.run_view import RunView


def read_committed(run: RunView, log: ConnectLog) -> Occasions:
    """After an aborted offset the next producer of a source reads on from the last committed one."""
    answer, deletions = Occasions(), run.shared(TopicDeletions)
    if deletions.unclear(RECORDS) or not run.shared(SourceMapping).dense:
        return answer
    stored = log.stored[(log.stored["kind"] == "offset") & log.stored["transactional"]]
    stored = stored.assign(session=log.sessions_of(stored))
    for (_, name), rows in stored.groupby(["partition", "name"]):
        for committed, aborted, following in _after_abort(entries_in(rows), rows["session"].tolist()):
            began = log.first_records.get((name, *following.producer))
            if began is None or aborted.number <= committed.number or deletions.may_have_lain_there(name, began.number):
                continue
            answer.met += began.number == committed.number + 1
            answer.entries += [[(aborted, "read"), (began, "sent")]] if began.number == aborted.number + 1 else []
    return answer


def _after_abort(rows: Sequence[Entry], sessions: Sequence[int]) -> Iterator[tuple[Entry, Entry, Entry]]:
    """The last committed offset of a source, an aborted one, and the next offset that another producer commits."""
    committed: Entry | None = None
    aborted: tuple[Entry, int] | None = None
    for entry, session in zip(rows, sessions, strict=True):
        if entry.ended == ABORTED and committed is not None:
            aborted = entry, session
        elif entry.ended == COMMITTED:
            if committed is not None and aborted is not None and session != aborted[1]:
                yield committed, aborted[0], entry
            committed, aborted = entry, None


def copied(run: RunView, log: ConnectLog) -> Occasions:
    """Offsets in the workers' topic, of a connector with an offsets topic of its own: committed there. No task reads them."""
    stored = log.stored[log.stored["kind"] == "offset"]
    shared = of_workers(log.stored["partition"])[stored.index]
    own, copies = stored[~shared], stored[shared & (stored["ended"] == PLAIN)]
    if own.empty or run.shared(TopicDeletions).of_offsets or not (own["ended"] == COMMITTED).any():
        return Occasions()
    fate: dict[tuple[str, int], set[int]] = defaultdict(set)
    for entry in entries_in(own):
        fate[entry.name, entry.number].add(entry.ended)
    judged = [(copy, fate.get((copy.name, copy.number), set())) for copy in entries_in(copies)]
    wrong = sum(ends == {ABORTED} for _, ends in judged)
    return Occasions(sum(COMMITTED in ends for _, ends in judged), elsewhere=wrong)


def told_after(run: RunView, log: ConnectLog) -> Occasions:
    """A worker called commitRecord up to a number: the records up to it were committed by then.

    The records of the same task that say so are the witnesses. Compared is, in the partition of each, the last record up to that
    number: the marker of its transaction lies before the first witness, or both are in one transaction, which was not committed.
    """
    names = ["partition", "name", "producer_id"]
    records = log.stored[(log.stored["kind"] == "record") & log.stored["transactional"]].reset_index()
    told = entries_of(run).told
    witnesses = told[told["number"] >= 0].merge(
        records[["partition", "offset", "producer_id", "txn"]], on=["partition", "offset"]
    )
    last = records.drop_duplicates([*names, "number"], keep="last")[["index", *names, "number", "offset", "txn", "ended"]]
    by_number = (table.sort_values("number") for table in (witnesses, last))
    pairs = pd.merge_asof(*by_number, on="number", by=names, suffixes=("", "_of")).dropna(subset=["offset_of"])
    pairs = pairs[pairs["offset_of"] < pairs["offset"]].sort_values("offset").drop_duplicates(["partition", "offset_of"])
    early = pairs["txn_of"] == pairs["txn"]
    at = records.set_index(["partition", "offset"])["index"]
    shown = [(int(row.index), at[row.partition, row.offset]) for row in pairs[early].itertuples(index=False)]
    return Occasions(
        int((~early & (pairs["ended"] == COMMITTED)).sum()),
        entries=[list(zip(entries_in(log.stored.loc[list(some)]), ("sent", "read"), strict=True)) for some in shown],
    )


def dropped(run: RunView, log: ConnectLog) -> Occasions:
    """Batches that a transform drops whole: those behind which their task has committed a record, and records of them that lie
    in the log all the same."""
    records = log.stored[(log.stored["kind"] == "record") & (log.stored["ended"].isin((COMMITTED, PLAIN)))].reset_index()
    said = entries_of(run).dropped.drop_duplicates(["partition", "offset"])
    known = records.merge(said[["partition", "offset", "number"]], on=["partition", "offset"], suffixes=("", "_said"))
    wrong = entries_in(log.stored.loc[known.loc[known["number_said"] < 0, "index"]])
    behind = known[known["number_said"] > 0]
    most = behind["number_said"].groupby(log.sessions_of(behind)).max().drop(NONE, errors="ignore")
    return Occasions(int(most.sum()), [[(entry, "sent")] for entry in wrong])


def stored_there(run: RunView, log: ConnectLog) -> Occasions:
    """Offsets that are committed on the Kafka cluster of the records, where that is another one than the workers'."""
    if not in_second(log.configuration["partition"]).any():
        return Occasions()
    mine = (log.stored["kind"] == "offset") & (log.stored["ended"] == COMMITTED) & ~in_second(log.stored["partition"])
    torn = run.shared(source_offset_torn.function)
    return Occasions(int(mine.sum()), elsewhere=len(set(torn.rows["cause"])) if torn.count else 0)


def migrated(run: RunView, log: ConnectLog) -> Occasions:
    """The first task that stores offsets in the connector's own topic reads on from the last one in the workers' topic."""
    answer = Occasions()
    dense = run.shared(SourceMapping).dense  # else nobody knows which position is the next one
    if not dense or run.shared(SourceLog).altered or log.slack_ms is None or run.shared(TopicDeletions).there_are:
        return answer
    stored = log.stored[(log.stored["kind"] == "offset") & (log.stored["ended"] == COMMITTED)]
    shared = of_workers(log.stored["partition"])[stored.index]
    for name, rows in stored[~shared].sort_values("timestamp").groupby("name"):
        own, before = entries_in(rows.iloc[:1])[0], stored[shared & (stored["name"] == name)]
        began = log.first_records.get((name, *own.producer))
        if before.empty or began is None or int(before["timestamp"].max()) + log.slack_ms >= own.timestamp:
            continue
        last = entries_in(before.sort_values("offset").iloc[-1:])[0]
        answer.met += began.number == last.number + 1
        answer.entries += [[(last, "read"), (began, "sent")]] if began.number <= last.number else []
    return answer


def altered(run: RunView, log: ConnectLog) -> Occasions:
    """After an offset was altered, or reset, the next producer of the source reads on from there, or begins as at first.

    Not judged: requests without an answer, as they may be carried out when the connector goes on.
    """
    source, answer = run.shared(SourceLog), Occasions()
    if not run.shared(SourceMapping).dense or not source.altered or source.unordered or run.shared(TopicDeletions).there_are:
        return answer
    certain = source.alterations["certain"]
    stored = log.stored[(log.stored["kind"] == "offset") & (log.stored["ended"] == COMMITTED)]
    stored = stored.assign(certain=certain.reindex(stored.index), session=log.sessions_of(stored))
    for (_, name), rows in stored.groupby(["partition", "name"]):
        origin = log.first_records.get((name, *entries_in(rows.iloc[:1])[0].producer))
        for alteration, following in _following(rows):
            began = log.first_records.get((name, *following.producer))
            begin = alteration.number + 1 if alteration.number >= 0 else origin and origin.number
            if began is not None and begin is not None:
                answer.met += began.number == begin
                answer.entries += [[(alteration, "read"), (began, "sent")]] if began.number != begin else []
    return answer


def _following(rows: pd.DataFrame) -> Iterator[tuple[Entry, Entry]]:
    """Of the committed offsets of one source the last of neighbouring alterations, and the offset that another producer stores
    next than had stored the one before."""
    last, alteration = NONE, None
    for entry, session, certain in zip(entries_in(rows), rows["session"], rows["certain"], strict=True):
        if pd.isna(certain):
            if alteration is not None and session != last:
                yield alteration, entry
            last, alteration = session, None
        else:
            alteration = entry if certain else None
