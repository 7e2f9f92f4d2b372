"""Sources of the counts of occasions: a run's history, its receipts, and its brokers' logs and log segments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from fencepost.checkers.history.positions import REBALANCING
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.pipeline.applications import has_application, outputs_of
from fencepost.checkers.pipeline.broker_events import BrokerEvents, broker_events
from fencepost.checkers.pipeline.chains import chains_of, has_members
from fencepost.checkers.pipeline.listed_transactions import listings
from fencepost.checkers.pipeline.stored_transactions import StoredTransactions, stored_transactions
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.roles import STORE_OFFSETS
from fencepost.harness.api.run import Receipts, Run

MOST_CLOCK_ERROR_S = 0.5
MS = 1_000_000
_CLIENT = re.compile(r"c\d+")
_ASKING = ("fence-producers", "abort-transaction", "revoke-acl")  # faults that ask brokers, as an operator does


@dataclass(frozen=True)
class OccasionSources:
    """What occasions are counted in: a run, with what is derived from it at its first use.

    receipts: None where some may be missing.
    """

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
        known = [answer.begin_ms * MS - answer.begin for answer in listings(self.view) if answer.begin_ms is not None]
        right = self.view.clock_error_s is not None and self.view.clock_error_s <= MOST_CLOCK_ERROR_S
        return int(np.median(known)) if known and right else None

    def seen(self, count: int) -> int | None:
        """A count by the history; None where there is nothing in it, and it lacks some of what was sent."""
        lacking = {Evidence.SENDS, Evidence.OUTCOMES} & self.view.missing
        return None if lacking and not count else count

    @cached_property
    def working(self) -> Any:
        """Which operations process inputs."""
        index = self.view.overview.index
        if not has_members(self.view):
            return np.zeros(len(index), dtype=np.bool_)
        return np.isin(index, chains_of(self.view).records["op"].unique())

    @cached_property
    def program(self) -> pd.DataFrame | None:
        """The transactions with outputs of a program, of a sink none; None: not known, as where no output lies in its topic."""
        if self.stored is None or (not self.is_sink and self.outputs.isdisjoint(self.stored.first_records)):
            return None
        outputs, table = self.outputs, self.stored.transactions
        return table[np.array([not outputs.isdisjoint(some) for some in table["partitions"]], dtype=np.bool_)]

    @cached_property
    def is_sink(self) -> bool:
        """Whether what the program makes of its inputs lies in a store outside of Kafka."""
        return self.is_program and bool(outputs_of(self.view).declared.get("store"))

    @cached_property
    def work_began_ms(self) -> int | None:
        """When the first output was written, or the first input of a sink; None: not known."""
        first = self.stored.first_records if self.stored else {}
        return min((ms for name, ms in first.items() if self.is_sink or name in self.outputs), default=None)

    @cached_property
    def rebalances_ms(self) -> list[int] | None:
        """When partitions of a program's group were assigned anew while it worked; None: not known."""
        began = self.work_began_ms
        if self.events is None or began is None:
            return None
        group = outputs_of(self.view).declared["group"]
        group = "" if group == STORE_OFFSETS else group  # a sink with offsets of its own is a member of some group
        return [ms for ms, name in self.events.rebalances if ms > began and name == (group or name)]

    @cached_property
    def assigned_anew(self) -> int:
        """How many rebalances clients of the workload were told of, but for assignments of what nobody had had before."""
        count, had = 0, set[str]()
        for _, _, kind, names in sorted(self.rebalances_of_members, key=lambda told: told[1]):
            count += kind != "assigned" or not had.isdisjoint(names)
            had.update(names)
        return count

    @cached_property
    def rebalances_of_members(self) -> list[tuple[int, int, str, list[str]]]:
        """(process, ns, kind, partitions) of each rebalance that a client of the workload was told of, with the end of the call
        that told it.
        """
        polls = ds.field("f").isin(REBALANCING) & ds.field("detail").is_valid()
        rows = self.view.history.select(("f", "process", "end", "detail"), polls).to_pylist()
        details = [(row["process"], row["end"], json.loads(row["detail"])) for row in rows if row["detail"]]
        return [
            (process, NONE if end is None else end, kind, names)
            for process, end, detail in details
            for kind, names in detail.get("rebalances", ())
            if names
        ]

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
        """(slot, ns) of each instance of a program that ended before it was asked to: then its own worker starts it again. Of one
        that was to end, as by `scale`, the worker ends, too, and another one starts it when it is to run again.
        """
        columns = ("index", "f", "slot", "process", "time", "end")
        rows = self.view.history.of_kind(columns, "instance").sort_by("index").to_pandas()
        next_life = rows.groupby("slot")[["time", "process"]].shift(-1)
        rows = rows.assign(after=next_life["time"].fillna(FOREVER))
        again = rows["end"].notna() & (next_life["process"] == rows["process"])
        made = [(int(row.slot), int(row.end)) for row in rows[again].itertuples()]
        for row in rows[rows["end"].isna()].itertuples():
            struck = self._struck_at(f"c{row.slot}", row.time, min(row.after, FOREVER))
            made += [(int(row.slot), max(struck))] if struck else []
        return made

    def _struck_at(self, node: str, since: int, until: int) -> list[int]:
        """When faults took hold of a node between two times: those after which it was gone, if receipts show any."""
        begun = [fault for fault in self.receipts or () if since <= (fault["injected_ns"] or 0) <= until]
        struck = [fault for fault in begun if fault["injected_ns"] and fault["effective"] is not False and node in hit_by(fault)]
        return [int(fault["injected_ns"]) for fault in [fault for fault in struck if _ended(node, fault)] or struck]

    def struck_nodes(self, clients: bool) -> int | None:
        """How many faults took hold of a client, or of anything else: those that name no node, of topics and settings. What an
        operator asks brokers for hurts none of those that it names. None where only such did of which nobody knows it.
        """
        if self.receipts is None:
            return None
        hurt = [
            fault["effective"]
            for fault in self.receipts
            if fault["injected_ns"] and (clients or fault["kind"] not in _ASKING) and _is_of(fault, clients)
        ]
        return hurt.count(True) or (None if None in hurt else 0)


def hit_by(fault: Mapping[str, Any]) -> list[str]:
    """The nodes of which a fault took hold: its targets, or those of them that its receipt says were hurt."""
    hit = _shown(fault).get("hit")
    return [str(node) for node in (hit if isinstance(hit, list) else fault["targets"] or ())]


def _ended(node: str, fault: Mapping[str, Any]) -> bool:
    """True if a receipt shows that a node had a process before the fault, and none after."""
    before, during = (seen if isinstance(seen := _shown(fault).get(name), Mapping) else {} for name in ("before", "during"))
    return before.get(node) is not None and during.get(node, "") is None


def _shown(fault: Mapping[str, Any]) -> Mapping[str, Any]:
    evidence = fault.get("evidence")
    return evidence if isinstance(evidence, Mapping) else {}


def _is_of(fault: Mapping[str, Any], clients: bool) -> bool:
    """True for a fault of a client, or of anything else."""
    nodes = {*(fault["targets"] or ()), *(node for pair in fault["pairs"] or () for node in pair.split(">"))}
    return any(bool(_CLIENT.fullmatch(str(node))) is clients for node in nodes) or not (nodes or clients)
