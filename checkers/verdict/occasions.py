"""Occasions of a run (`harness.api.occasions`), counted from its history, its receipts, and its brokers' logs and log segments.

A count is None where nobody knows it. A property that held is *held without occasion* where each of its occasions is known not to
have occurred: what is not known leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fencepost.checkers.history.source import read_errors
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import ABORTED, FOREVER, INFO, NONE
from fencepost.checkers.pipeline.instances import instances
from fencepost.checkers.verdict.decision import JudgedProperty
from fencepost.checkers.verdict.occasion_sources import MS, OccasionSources
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.run import Receipts, Run
from fencepost.harness.api.values import Property

Counts = Mapping[Occasion, int | None]
PATIENCE_MS = 1000  # within which a commit is usually answered, and after which a program's output is not at work any more


# --------------------------------------------------------------------------------------------------
# Properties
# --------------------------------------------------------------------------------------------------
def beside(prop: JudgedProperty, wanted: tuple[Occasion, ...], counts: Counts) -> JudgedProperty:
    """A property with the counts of the occasions of which it needs one; held without occasion where there was surely none."""
    if prop.verdict is Property.NOT_EXERCISED:
        return prop
    own = {occasion.value: counts.get(occasion) for occasion in wanted}
    if prop.verdict is Property.HELD and own and not any(count is None or count for count in own.values()):
        reason = f"nothing occurred that could have broken it: no {', no '.join(own)}"
        return replace(
            prop,
            verdict=Property.WITHOUT_OCCASION,
            occasions=own,
            reason="; ".join(filter(None, (reason, prop.reason))),
        )
    return replace(prop, occasions=own)


# --------------------------------------------------------------------------------------------------
# Counts
# --------------------------------------------------------------------------------------------------
def count_occasions(run: Run, view: RunView, receipts: Receipts | None) -> dict[Occasion, int | None]:
    """How often each kind of occasion occurred. receipts: None where some may be missing."""
    sources = OccasionSources(run, view, receipts)
    return {occasion: _counted(count, sources) for occasion, count in _COUNTS.items()}


def _counted(count: Callable[[OccasionSources], int | None], sources: OccasionSources) -> int | None:
    strange = read_errors(ValueError, LookupError, TypeError, AttributeError)  # details of a history from elsewhere
    try:
        number = count(sources)
    except strange:
        return None
    return None if number is None else int(number)


def _client_died(sources: OccasionSources) -> int | None:
    overview = sources.view.overview
    return sources.seen(int((overview.main & (overview.txn | overview.send) & (overview.end == NONE)).sum()))


def _unanswered(sources: OccasionSources, which: Any) -> int | None:
    overview = sources.view.overview
    late = (overview.end == NONE) | (overview.end - overview.decided > PATIENCE_MS * MS)
    unknown = ~overview.ok & ~overview.failed
    return sources.seen(int((which & overview.txn & (overview.decided != NONE) & (late | unknown)).sum()))


def _commit_unanswered(sources: OccasionSources) -> int | None:
    return _unanswered(sources, sources.view.overview.main)


def _work_unanswered(sources: OccasionSources) -> int | None:
    if not sources.is_program:
        return _unanswered(sources, sources.working)
    made = sources.program
    if made is None:
        return None
    return _by_logs(sources, int(((made["kind"] == "COMMIT") & (made["decided"] - made["last"] > PATIENCE_MS)).sum()))


def _by_logs(sources: OccasionSources, count: int | None) -> int | None:
    """A count by the log segments; None where it is 0, and a log has lost its beginning."""
    return count if count or (sources.stored is not None and sources.stored.whole) else None


def _transaction_aborted(sources: OccasionSources) -> int | None:
    overview, stored = sources.view.overview, sources.stored
    if stored is not None:
        own = int((overview.main & overview.txn & (overview.status == ABORTED)).sum())
        return _by_logs(sources, max(own, int((stored.transactions["kind"] == "ABORT").sum())))
    count = _aborted(sources, overview.main & overview.txn)
    others = sources.view.contract["application"] != "none" or sources.view.contract["connect"] != "none"
    return None if others and not count else count


def _aborted(sources: OccasionSources, which: Any) -> int | None:
    """How many of some operations were aborted; None where none surely was, and one may have been."""
    status = sources.view.overview.status[which]
    count = int((status == ABORTED).sum())
    return None if not count and bool((status == INFO).any()) else sources.seen(count)


def _work_aborted(sources: OccasionSources) -> int | None:
    if not sources.is_program:
        return _aborted(sources, sources.working)
    return None if sources.program is None else _by_logs(sources, int((sources.program["kind"] == "ABORT").sum()))


def _instance_died(sources: OccasionSources) -> int | None:
    """Members that died in a transaction; instances that died with one open, their own as far as the brokers' logs say that."""
    overview = sources.view.overview
    if not sources.is_program:
        return sources.seen(int((sources.working & (overview.end == NONE)).sum()))
    if sources.is_sink:
        return None if sources.receipts is None else len(sources.deaths)
    made, ahead = sources.program, sources.ahead_ns
    if made is None or ahead is None or sources.receipts is None or sources.stored is None:
        return None
    plain = sources.stored.plain
    outputs = np.sort(plain.loc[plain["partition"].isin(sources.outputs), "timestamp"].to_numpy())
    owners = made["producer_id"].map(sources.slots)
    died = 0
    for slot, ns in sources.deaths:
        ms = (ns + ahead) // MS
        opened = (made["first"] <= ms) & (ms <= made["decided"]) & (owners.isna() | (owners == slot))
        at = np.searchsorted(outputs, ms, side="right")
        died += bool(opened.any()) or bool(at and ms - outputs[at - 1] <= PATIENCE_MS)
    return died


def _work_superseded(sources: OccasionSources) -> int | None:
    """Transactions that were open while the group was assigned anew, of members or instances that did not die meanwhile."""
    return _superseded_instances(sources) if sources.is_program else _superseded_members(sources)


def _superseded_members(sources: OccasionSources) -> int | None:
    """Operations of members that lived, and within which another one was told of a rebalance."""
    overview = sources.view.overview
    working = sources.working & (overview.end != NONE)
    if not working.any():
        return sources.seen(0)
    process, begin, end = (column[working] for column in (overview.process, overview.time, overview.end))
    told = np.array([rebalance[:2] for rebalance in sources.rebalances_of_members], dtype=np.int64).reshape(-1, 2)
    by_others = _inside(told[:, 1], begin, end)
    for whose in np.unique(told[:, 0]):
        own = process == whose
        by_others[own] -= _inside(told[told[:, 0] == whose, 1], begin[own], end[own])
    return sources.seen(int((by_others > 0).sum()))


def _inside(times: Ints, begin: Ints, end: Ints) -> Ints:
    """How many of some times lie between the begin and the end of each of some spans."""
    ordered = np.sort(times)
    return np.asarray(np.searchsorted(ordered, end, "left") - np.searchsorted(ordered, begin, "right"))


def _superseded_instances(sources: OccasionSources) -> int | None:
    """Transactions of a program whose instance lived, as far as the brokers' logs say whose they are."""
    made, rebalances = sources.program, sources.rebalances_ms
    if made is None or rebalances is None:
        return None
    first, decided = made["first"].to_numpy(), made["decided"].to_numpy()
    superseded = _inside(np.array(rebalances, dtype=np.int64), first, decided) > 0
    if not superseded.any():
        return 0
    if sources.ahead_ns is None or sources.receipts is None:
        return None
    owners = made["producer_id"].map(sources.slots)
    for slot, ns in sources.deaths:
        ms = (ns + sources.ahead_ns) // MS
        died = (made["first"] <= ms) & (ms <= made["decided"]) & (owners.isna() | (owners == slot))
        superseded &= ~died.to_numpy()
    return int(superseded.sum())


def _group_rebalanced(sources: OccasionSources) -> int | None:
    if sources.is_program:
        return None if sources.rebalances_ms is None else len(sources.rebalances_ms)
    if sources.view.contract["consumption"] == "assigned":
        return 0
    return sources.seen(sources.assigned_anew)


def _coordinator_moved(sources: OccasionSources) -> int | None:
    events, stored = sources.events, sources.stored
    if events is None or stored is None:
        return None
    places = stored.transactions["producer_id"].map({producer: where for _, _, producer, where in events.initialisations})
    table = stored.transactions
    opened = (((places == place) & (table["first"] <= ms) & (ms <= table["decided"])).sum() for ms, place in events.elections)
    return int(sum(opened))


def _producer_fenced(sources: OccasionSources) -> int | None:
    known, events = sources.view.shared(instances), sources.events
    ready = known.ready != NONE
    several = sum(len(np.unique(known.process[ready & (known.ident == ident)])) - 1 for ident in np.unique(known.ident[ready]))
    own = max(int((known.fenced != FOREVER).sum()), int(several))  # of two at a time, nobody knows which was fenced
    if events is not None:
        ids = [name for _, name, *_ in events.initialisations]
        return max(own, len(ids) - len(set(ids)))
    doubtful = sources.view.fencings is None or any(
        len(np.unique(known.process[known.ident == ident])) > 1 for ident in np.unique(known.ident[~ready])
    )
    return own or (0 if len(known) and not doubtful else None)


_COUNTS: Mapping[Occasion, Callable[[OccasionSources], int | None]] = {
    Occasion.CLIENT_DIED: _client_died,
    Occasion.COMMIT_UNANSWERED: _commit_unanswered,
    Occasion.TRANSACTION_ABORTED: _transaction_aborted,
    Occasion.INSTANCE_DIED: _instance_died,
    Occasion.WORK_UNANSWERED: _work_unanswered,
    Occasion.WORK_ABORTED: _work_aborted,
    Occasion.WORK_SUPERSEDED: _work_superseded,
    Occasion.GROUP_REBALANCED: _group_rebalanced,
    Occasion.COORDINATOR_MOVED: _coordinator_moved,
    Occasion.LEADER_MOVED: lambda sources: None if sources.stored is None else _by_logs(sources, sources.stored.leader_changes),
    Occasion.PRODUCER_FENCED: _producer_fenced,
    Occasion.SERVER_STRUCK: lambda sources: sources.struck_nodes(clients=False),
    Occasion.CLIENT_STRUCK: lambda sources: sources.struck_nodes(clients=True),
}
