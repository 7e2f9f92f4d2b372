"""Occasions of a run (`harness.api.occasions`), counted from its history, its receipts, and its brokers' logs and log segments.

A count is None where nobody knows it. A property that held is *held without occasion* where each of its occasions is known not to
have occurred: what is not known leaves it as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fencepost.checkers.history.source import read_errors
from fencepost.checkers.model.failures import RAISED
from fencepost.checkers.model.values import ABORTED, FOREVER, NONE
from fencepost.checkers.pipeline.applications import has_application, outputs_of
from fencepost.checkers.pipeline.broker_events import BrokerEvents, broker_events
from fencepost.checkers.pipeline.chains import chains_of
from fencepost.checkers.pipeline.instances import instances
from fencepost.checkers.pipeline.listed_transactions import listings
from fencepost.checkers.pipeline.stored_transactions import StoredTransactions, stored_transactions
from fencepost.checkers.verdict.decision import JudgedProperty
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.run import Receipts, Run
from fencepost.harness.api.values import Property

Counts = Mapping[Occasion, int | None]
PATIENCE_MS = 1000  # within which a commit is usually answered, and after which a program's output is not at work any more
MOST_CLOCK_ERROR_S = 0.5
_CLIENT = re.compile(r"c\d+")
_MS = 1_000_000


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
    counting = _Counting(run, view, receipts)
    return {occasion: _counted(count, counting) for occasion, count in _COUNTS.items()}


def _counted(count: Callable[[_Counting], int | None], counting: _Counting) -> int | None:
    try:
        number = count(counting)
    except (*read_errors(), *RAISED):  # a history from elsewhere may have anything in its details
        return None
    return None if number is None else int(number)


@dataclass(frozen=True)
class _Counting:
    """What is counted in."""

    run: Run
    view: RunView
    receipts: Receipts | None

    @cached_property
    def stored(self) -> StoredTransactions | None:
        return stored_transactions(self.view)

    @cached_property
    def events(self) -> BrokerEvents | None:
        return broker_events(self.run.directory)

    @cached_property
    def is_program(self) -> bool:
        return has_application(self.view)

    @cached_property
    def ahead_ns(self) -> int | None:
        """How far the wall clock was ahead of the history's; None: nobody knows, or the brokers' clocks were wrong."""
        known = [answer.begin_ms * _MS - answer.begin for answer in listings(self.view) if answer.begin_ms is not None]
        right = self.view.clock_error_s is not None and self.view.clock_error_s <= MOST_CLOCK_ERROR_S
        return int(np.median(known)) if known and right else None

    def seen(self, count: int) -> int | None:
        """A count by the history; None where there is nothing in it, and it lacks some of what was sent."""
        lacking = {Evidence.SENDS, Evidence.OUTCOMES} & self.view.missing
        return None if lacking and not count else count

    @cached_property
    def working(self) -> Any:
        """Which operations process inputs."""
        return np.isin(self.view.overview.index, chains_of(self.view).records["op"].unique())

    @cached_property
    def program(self) -> pd.DataFrame | None:
        """The transactions with outputs of a program."""
        if self.stored is None:
            return None
        outputs, table = self.outputs, self.stored.transactions
        return table[[not outputs.isdisjoint(some) for some in table["partitions"]]]

    @cached_property
    def outputs(self) -> frozenset[str]:
        """The output partitions of a program."""
        return frozenset(outputs_of(self.view).declared["output_partitions"])

    @cached_property
    def slots(self) -> dict[int, int]:
        """Slots of instances by the producer ids of their own transactional ids, as far as the brokers' logs say."""
        prefix = re.escape(str(self.run.plan.get("prefix") or ""))
        known = self.events.initialisations if self.events else ()
        matches = [(re.fullmatch(rf"{prefix}(\d+)", name), producer) for _, name, producer, _ in known]
        return {producer: int(match[1]) for match, producer in matches if match and prefix}

    @cached_property
    def deaths(self) -> list[tuple[int, int]]:
        """(slot, ns) of each instance of a program that ended before it was asked to."""
        columns = ("index", "f", "slot", "time", "end")
        rows = self.view.history.of_kind(columns, "instance").sort_by("index").to_pandas()
        next_life = rows.groupby("slot")["time"].shift(-1)
        rows = rows.assign(after=next_life.fillna(FOREVER))
        made = [(int(row.slot), int(row.end)) for row in rows[rows["end"].notna() & next_life.notna()].itertuples()]
        for row in rows[rows["end"].isna()].itertuples():
            struck = [
                at for node, at in self._struck_at() if node == f"c{row.slot}" and row.time <= at <= min(row.after, FOREVER)
            ]
            made += [(int(row.slot), max(struck))] if struck else []
        return made

    def _struck_at(self) -> list[tuple[str, int]]:
        return [(str(node), int(fault["injected_ns"])) for fault in self.struck or () for node in fault["targets"] or ()]

    @cached_property
    def struck(self) -> list[Mapping[str, Any]] | None:
        """The receipts of faults that took hold; None: not known."""
        if self.receipts is None:
            return None
        return [fault for fault in self.receipts if fault["injected_ns"] and fault["effective"] is not False]

    def struck_nodes(self, clients: bool) -> int | None:
        """How many faults took hold of a client, or of anything else: those that name no node, of topics and settings."""
        if self.struck is None:
            return None
        hurt = [
            {*(fault["targets"] or ()), *(node for pair in fault["pairs"] or () for node in pair.split(">"))}
            for fault in self.struck
        ]
        return sum(
            any(bool(_CLIENT.fullmatch(str(node))) is clients for node in nodes) or not (nodes or clients) for nodes in hurt
        )


def _client_died(counting: _Counting) -> int | None:
    overview = counting.view.overview
    return counting.seen(int((overview.main & (overview.txn | overview.send) & (overview.end == NONE)).sum()))


def _unanswered(counting: _Counting, which: Any) -> int | None:
    overview = counting.view.overview
    late = (overview.end == NONE) | (overview.end - overview.decided > PATIENCE_MS * _MS)
    unknown = ~overview.ok & ~overview.failed
    return counting.seen(int((which & overview.txn & (overview.decided != NONE) & (late | unknown)).sum()))


def _commit_unanswered(counting: _Counting) -> int | None:
    return _unanswered(counting, counting.view.overview.main)


def _work_unanswered(counting: _Counting) -> int | None:
    if not counting.is_program:
        return _unanswered(counting, counting.working)
    made = counting.program
    if made is None:
        return None
    return int(((made["kind"] == "COMMIT") & (made["decided"] - made["last"] > PATIENCE_MS)).sum())


def _transaction_aborted(counting: _Counting) -> int | None:
    overview, stored = counting.view.overview, counting.stored
    own = int((overview.main & overview.txn & (overview.status == ABORTED)).sum())
    if stored is not None:
        return max(own, int((stored.transactions["kind"] == "ABORT").sum()))
    others = counting.view.contract["application"] != "none" or counting.view.contract["connect"] != "none"
    return None if others and not own else counting.seen(own)


def _work_aborted(counting: _Counting) -> int | None:
    if not counting.is_program:
        return counting.seen(int((counting.working & (counting.view.overview.status == ABORTED)).sum()))
    return None if counting.program is None else int((counting.program["kind"] == "ABORT").sum())


def _instance_died(counting: _Counting) -> int | None:
    """Members that died in a transaction; instances that died with one open, their own as far as the brokers' logs say that."""
    overview = counting.view.overview
    if not counting.is_program:
        return counting.seen(int((counting.working & (overview.end == NONE)).sum()))
    made, ahead = counting.program, counting.ahead_ns
    if made is None or ahead is None or counting.receipts is None or counting.stored is None:
        return None
    plain = counting.stored.plain
    outputs = np.sort(plain.loc[plain["partition"].isin(counting.outputs), "timestamp"].to_numpy())
    owners = made["producer_id"].map(counting.slots)
    died = 0
    for slot, ns in counting.deaths:
        ms = (ns + ahead) // _MS
        opened = (made["first"] <= ms) & (ms <= made["decided"]) & (owners.isna() | (owners == slot))
        at = np.searchsorted(outputs, ms, side="right")
        died += bool(opened.any()) or bool(at and ms - outputs[at - 1] <= PATIENCE_MS)
    return died


def _group_rebalanced(counting: _Counting) -> int | None:
    view = counting.view
    if counting.is_program:
        if counting.events is None or counting.stored is None:
            return None
        first = min((ms for name, ms in counting.stored.first_records.items() if name in counting.outputs), default=None)
        group = outputs_of(view).declared["group"]
        rebalances = counting.events.rebalances
        return sum(first is not None and ms > first and name == (group or name) for ms, name in rebalances)
    if view.contract["consumption"] == "assigned":
        return 0
    rows = view.history.of_kind(("f", "process", "detail"), "txn", "poll", "committed", "subscribe", "seek").to_pylist()
    details = [(row["process"], json.loads(row["detail"])) for row in rows if row["detail"]]
    moved = [process for process, detail in details for kind, names in detail.get("rebalances", ()) if names]
    return counting.seen(len(moved) - len(set(moved)))


def _coordinator_moved(counting: _Counting) -> int | None:
    events, stored = counting.events, counting.stored
    if events is None or stored is None:
        return None
    places = stored.transactions["producer_id"].map({producer: where for _, _, producer, where in events.initialisations})
    table = stored.transactions
    opened = (((places == place) & (table["first"] <= ms) & (ms <= table["decided"])).sum() for ms, place in events.elections)
    return int(sum(opened))


def _producer_fenced(counting: _Counting) -> int | None:
    known = counting.view.shared(instances)
    own, events = int((known.fenced != FOREVER).sum()), counting.events
    if events is None:
        return own if len(known) else None
    ids = [name for _, name, *_ in events.initialisations]
    return max(own, len(ids) - len(set(ids)))


_COUNTS: Mapping[Occasion, Callable[[_Counting], int | None]] = {
    Occasion.CLIENT_DIED: _client_died,
    Occasion.COMMIT_UNANSWERED: _commit_unanswered,
    Occasion.TRANSACTION_ABORTED: _transaction_aborted,
    Occasion.INSTANCE_DIED: _instance_died,
    Occasion.WORK_UNANSWERED: _work_unanswered,
    Occasion.WORK_ABORTED: _work_aborted,
    Occasion.GROUP_REBALANCED: _group_rebalanced,
    Occasion.COORDINATOR_MOVED: _coordinator_moved,
    Occasion.LEADER_MOVED: lambda counting: None if counting.stored is None else counting.stored.leader_changes,
    Occasion.PRODUCER_FENCED: _producer_fenced,
    Occasion.SERVER_STRUCK: lambda counting: counting.struck_nodes(clients=False),
    Occasion.CLIENT_STRUCK: lambda counting: counting.struck_nodes(clients=True),
}
