"""Damages to what one reader saw, and when. As in `records`: a clean history in, a damaged one out, or None."""

from __future__ import annotations

from random import Random

import numpy as np

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.accompanying import SKIPS
from fencepost.checkers.selfcheck.record_damages import exchange, none_early, pick


def _sequence(rows: HistoryRows) -> pd.DataFrame:
    """Committed records as the non-final read_committed readers got them, in the order of (process, partition, time).

    Without those of members of a group: they go back, and lose partitions, so that not every step of theirs is judged.
    before, after: whether the same reader read this partition before and after. opens, closes: first, last in its poll.
    """
    reads = rows.reads
    members = rows.ops.loc[rows.ops["f"] == "subscribe", "process"]
    mine = reads[reads["committed"] & ~reads["final"] & reads["fine"] & ~reads["process"].isin(members)]
    mine = mine.sort_values(["process", "partition", "op", "at"], kind="stable")
    keys = mine[["process", "partition"]].ne(mine[["process", "partition"]].shift()).any(axis=1)
    opens = keys | mine["op"].ne(mine["op"].shift())
    ends = keys.shift(-1, fill_value=True)
    good = mine["v"].isin(rows.witnessed["v"]) & ~mine.duplicated(["process", "partition", "v"], keep=False)
    return mine.assign(before=~keys, after=~ends, opens=opens, closes=opens.shift(-1, fill_value=True), good=good)


def _seen(row: pd.Series, what: str) -> tuple[str, frozenset[int]]:
    return f"process {row['process']} {what} {row['partition']}@{row['offset']}", frozenset([int(row["v"])])


def skip_between(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A reader's poll begins one committed record too late."""
    reads = _sequence(rows)
    fit = reads[reads["good"] & reads["before"] & reads["opens"] & ~reads["closes"]]
    if not len(fit):
        return None
    gone = pick(fit, rng)
    return DamagedHistory(rows.without([gone.name]), *_seen(gone, "skips, between two polls,"))


def skip_inside(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A committed record is missing in the middle of a poll."""
    reads = _sequence(rows)
    fit = reads[reads["good"] & ~reads["opens"] & ~reads["closes"]]
    if not len(fit):
        return None
    gone = pick(fit, rng)
    return DamagedHistory(rows.without([gone.name]), *_seen(gone, "skips, inside a poll,"))


def step_back(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A reader's poll begins with the record that ended its poll before."""
    reads = _sequence(rows)
    back = reads.shift(1)
    where = np.flatnonzero(reads["opens"] & reads["before"] & back["good"].eq(True))
    if not len(where):
        return None
    chosen = int(where[rng.randrange(len(where))])
    read, next_read = reads.iloc[chosen - 1], reads.iloc[chosen]
    again = pd.DataFrame([{**read, "op": next_read["op"], "at": next_read["at"] - 0.5, "ended": next_read["ended"]}])
    return DamagedHistory(rows.with_reads(again), *_seen(read, "gets a second time, in its next poll,"))


def repeat_inside(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A poll returns one record twice in a row."""
    reads = _sequence(rows)
    fit = reads[reads["good"] & ~reads["opens"] & ~reads["closes"]]
    if not len(fit):
        return None
    read = pick(fit, rng)
    again = pd.DataFrame([{**read, "at": read["at"] + 0.5}])
    return DamagedHistory(rows.with_reads(again), *_seen(read, "gets twice in one poll"))


def forget(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A final reader does not return a record that another reader had long before, though it returns later ones."""
    reads = rows.reads
    earlier = reads.loc[reads["committed"] & ~reads["final"], "v"]
    fit = reads[reads["final"] & reads["committed"] & reads["v"].isin(rows.witnessed["v"]) & reads["v"].isin(earlier)]
    if not len(fit):
        return None
    gone = pick(fit, rng)
    records = rows.sends.loc[rows.sends["op"].isin(rows.sends.loc[rows.sends["v"] == gone["v"], "op"]), "v"]
    what, _ = _seen(gone, "does not return, though others had it before,")
    return DamagedHistory(rows.without([gone.name]), what, frozenset(records))


def invert(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """Two records of two producers change places; the first was acknowledged before the second was sent."""
    sent = rows.witnessed.sort_values(["partition", "place"], kind="stable").reset_index(drop=True)
    after = sent.shift(-1)
    pair = (sent["partition"] == after["partition"]) & (sent["process"] != after["process"])
    pair &= (sent["ended"] != NONE) & (sent["ended"] < after["began"])
    pairs = np.flatnonzero(pair & none_early(rows, sent)).tolist()
    neighbours = ((sent.iloc[at], sent.iloc[at + 1]) for at in rng.sample(pairs, len(pairs)))
    return next((exchange(rows, *two) for two in neighbours if not _passes_its_own(rows, *two)), None)


def _passes_its_own(rows: HistoryRows, first: pd.Series, second: pd.Series) -> bool:
    """True if one of the producers has another record between the two, which its own would overtake."""
    sends = rows.sends
    between = (sends["partition"] == first["partition"]) & sends["offset"].between(
        first["place"], second["place"], inclusive="neither"
    )
    return bool((between & sends["process"].isin([first["process"], second["process"]])).any())


# --------------------------------------------------------------------------------------------------
# What is planted, what must be found, and what accompanies it
# --------------------------------------------------------------------------------------------------
SKIP_BETWEEN = PlantedDamage(
    "skip", skip_between, ("poll-skip",), ("stale-read",), "needs two polls of one partition by one reader"
)
SKIP_INSIDE = PlantedDamage(
    "skip inside",
    skip_inside,
    ("int-poll-skip",),
    ("stale-read",),
    "needs a poll of three records of one partition",
)
STEP_BACK = PlantedDamage("step back", step_back, ("nonmonotonic-poll",), (), "needs two polls of one partition by one reader")
REPEAT_INSIDE = PlantedDamage(
    "repeat inside",
    repeat_inside,
    ("int-nonmonotonic-poll",),
    (),
    "needs a poll of three records of one partition",
)
FORGET = PlantedDamage(
    "forget",
    forget,
    ("stale-read",),
    (*SKIPS, "lost-write", "torn-transaction"),
    "needs a read_committed final read, and a reader before it",
)
INVERT = PlantedDamage(
    "invert",
    invert,
    ("real-time-inversion",),
    (),
    "needs neighbours of two producers, one acknowledged before the other was sent, read after both were decided",
)
