"""The fault runner: strikes as the schedule says, writes a receipt for every fault, and leaves nothing hurt behind.

A lane is a generator that yields the times it waits for. The caller does the waiting: threads here, and
`nemesis.testing.FakeClock.play` in tests.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from random import Random
from typing import Any

import structlog

from fencepost.harness.api import CampaignError, Cluster, Fault, HarnessError, Receipt
from fencepost.harness.api.plans import SAME, Budget, Injection
from fencepost.harness.api.values import whole_number
from fencepost.harness.perform.budget import Ledger
from fencepost.harness.perform.reachability import PATIENT_PROBES, Reachability, closed_pairs_note, probe_pairs, reach_field
from fencepost.harness.planning import same_target
from fencepost.harness.plugins.fault_validation import breaches, lacks

log = structlog.get_logger()

Wait = Callable[[threading.Event, int], bool]
Condition = Callable[[], Sequence[str]]
NO_BUDGET = Budget()
REQUESTED = "requested"  # the lane of faults that no schedule has
NOT_HEALED = "not healed: "  # in a receipt's note
WHEN_WITHIN_S = 10.0  # how long a strike waits for its condition
LOOK_EVERY_S = 0.02
FIRED_S = 60.0  # how long a fault waits for the healing of one that it injected


def wait_until(stopped: threading.Event, until_ns: int) -> bool:
    """Wait for a time of CLOCK_MONOTONIC, or until `stopped` is set; returns whether it is."""
    while (left_ns := until_ns - time.monotonic_ns()) > 0:
        if stopped.wait(left_ns / 1e9):
            return True
    return stopped.is_set()


@dataclass(frozen=True)
class _Held:
    """A fault that was injected and not yet healed.

    failed: what went wrong when it was to be healed, for its note; empty while nothing did.
    """

    injection: Injection
    fault: Fault
    receipt: Receipt
    failed: str = ""


class FaultRunner:
    """Runs a schedule against a cluster, every lane in a thread of its own.

    A lane that is late, because a heal waited for a broker, still makes the planned pause before its next fault.

    cluster: its methods are called from several threads when there are several lanes.
    make_fault: an injection -> its fault; called for all of them at once, before anything starts.
    write: takes each receipt as a dict of plain JSON (docs/history.md): at injection, and again at healing. Called by one
    thread at a time.
    clock: reads CLOCK_MONOTONIC (ns); another in tests.
    wait: waits for a time of the clock; another in tests.
    budget: how many servers the faults together may hurt at a time; what would be too much is refused.
    conditions: of an injection's `when`: name -> a call that returns the nodes that fulfil it now (none: it does not hold).

    Raises CampaignError with every way in which a fault's class breaks its interface, and what `make_fault` raises.
    """

    def __init__(
        self,
        cluster: Cluster,
        schedule: Sequence[Injection],
        make_fault: Callable[[Injection], Fault],
        write: Callable[[dict[str, Any]], None],
        clock: Callable[[], int] = time.monotonic_ns,
        wait: Wait = wait_until,
        budget: Budget = NO_BUDGET,
        conditions: Mapping[str, Condition] | None = None,
    ) -> None:
        self._cluster, self._write, self._clock, self._wait = cluster, write, clock, wait
        self._ledger, self._conditions = Ledger(cluster, budget, clock), dict(conditions or {})
        self._ledger.strike = self._fire
        self._fired: dict[int, list[threading.Event]] = {}  # fault -> for each fault that it injected: it has been healed
        self._schedule = list(schedule)
        self._make_fault = make_fault
        self._firsts = same_target.firsts(self._schedule)
        self._faults: dict[int, Fault] = {}
        for injection in self._schedule:
            self._faults[injection.id] = make_fault(self._judgeable(injection))
        self._require_interfaces()
        self._held: dict[int, _Held] = {}
        self._striking: set[str] = set()  # lanes
        self._quiet_ns = 0
        self._begun: set[int] = set()
        self._recorded: dict[int, Receipt] = {}  # the last receipt of each injection
        self.unwritten: set[int] = set()  # injections whose last receipt could not be written
        self._problems: list[str] = []
        self._threads: dict[str, threading.Thread] = {}
        self._stopped = threading.Event()
        self._holding, self._writing, self._adding = threading.Lock(), threading.Lock(), threading.Lock()
        self._t0_ns = 0

    def unavailable(self) -> dict[int, str]:
        """The injections that this cluster cannot have, and why. Each still gets its receipt, without effect, at its time."""
        reasons = {id_: "; ".join(lacks(fault, self._cluster).values()) for id_, fault in self._faults.items()}
        return {id_: reason for id_, reason in reasons.items() if reason}

    def start(self, t0_ns: int) -> None:
        """Begin; `at_s` of the schedule counts from `t0_ns` (CLOCK_MONOTONIC)."""
        for lane, timeline in self.timelines(t0_ns).items():
            thread = threading.Thread(target=self._run, args=(lane, timeline), name=f"nemesis-{lane}", daemon=True)
            self._threads[lane] = thread
            thread.start()

    def timelines(self, t0_ns: int) -> dict[str, Iterator[int]]:
        """The lanes, each a generator that does the lane's work and yields the times (ns) at which to resume it.

        This is what `start` runs in threads. Tests play it in one thread under a fake clock.
        """
        self._t0_ns = self._quiet_ns = t0_ns
        reasons = self.unavailable()
        lanes: dict[str, list[Injection]] = defaultdict(list)
        for injection in sorted(self._schedule, key=lambda injection: injection.at_s):
            lanes[injection.lane].append(injection)
        return {lane: self._timeline(injections, reasons) for lane, injections in lanes.items()}

    def stop(self, within_s: float = 60.0) -> list[str]:
        """Inject nothing more, heal what is hurt, and return what went wrong in the runner itself (nothing, usually).

        A lane that is still busy after `within_s` seconds is given up, and named: what it injects can hurt nothing from then on,
        and has a receipt without effect that says so. A fault that could not be healed before is healed once more.
        """
        self._stopped.set()
        deadline = time.monotonic() + within_s
        if self._adding.acquire(timeout=within_s):  # whoever is injecting what no schedule has
            self._adding.release()
        for lane, thread in dict(self._threads).items():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._ledger.over = True
                self._problem(f"lane {lane} did not end within {within_s:g} s of stopping; a fault hangs in inject or heal")
                self._give_up(lane, within_s)
        for id_ in list(self._held):
            self._heal(id_, again=True)
        if late := self.not_reached():
            log.info("faults not reached", ids=late)
        return list(self._problems)

    def _give_up(self, lane: str, within_s: float) -> None:
        """Receipts for what the lane has begun and not recorded; what comes later replaces them."""
        for injection in self._schedule:
            if injection.lane == lane and injection.id in self._begun - self._recorded.keys():
                note = f"given up: still injecting {within_s:g} s after the faults' end; it may have hurt something until then"
                self._record(replace(self._blank(injection, note), injected_ns=self._clock()))

    def not_reached(self) -> list[int]:
        """Injections whose time has come but whose lane was still busy: a heal that waits for a broker makes its lane late.

        They have no receipt, for nothing was tried.
        """
        if not self._t0_ns:
            return []
        now_ns = self._clock()
        return [
            injection.id
            for injection in self._schedule
            if injection.id not in self._begun and self._planned_ns(injection) <= now_ns
        ]

    def strike_now(self, kind: str, options: Mapping[str, Any], lasts_s: float, healed: Callable[[], object]) -> bool | None:
        """Inject a fault that no schedule has, at once; returns whether it took hold (None: unknown, or the faults are over).

        It is healed after `lasts_s`, at the latest by `stop`; then `healed` is called, at once where there is nothing to heal.
        """
        with self._adding:
            if self._stopped.is_set():
                healed()
                return None
            number = max([planned.id for planned in self._schedule] + [*self._faults, -1]) + 1
            at_s = (self._clock() - self._t0_ns) / 1e9
            injection = Injection(
                id=number, at_s=at_s, lasts_s=lasts_s, kind=kind, options=dict(options), lane=REQUESTED, seed=number
            )
            self._faults[number] = self._make_fault(injection)
            self._striking.add(REQUESTED)
            if why := "; ".join(lacks(self._faults[number], self._cluster).values()):
                self._record(self._blank(injection, f"unavailable here, because {why}"))
            else:
                self._inject(injection, None)
            with self._holding:
                held = self._held.get(number)
        if held is None:
            self._lane_over(REQUESTED)
            healed()
            return False
        self._heal_later(number, lasts_s, healed)
        return held.receipt.effective

    def _fire(self, by: int, kind: str, options: Mapping[str, Any], lasts_s: float) -> bool | None:
        """Inject a fault for another one, which does not count as healed before it."""
        healed = threading.Event()
        self._fired.setdefault(by, []).append(healed)
        return self.strike_now(kind, options, lasts_s, healed.set)

    def _heal_later(self, id_: int, lasts_s: float, healed: Callable[[], object]) -> None:
        def heal() -> None:
            self._stopped.wait(lasts_s)
            self._heal(id_)
            self._lane_over(REQUESTED)
            healed()

        thread = threading.Thread(target=heal, name=f"nemesis-{REQUESTED}-{id_}", daemon=True)
        self._threads[thread.name] = thread
        thread.start()

    def active(self) -> list[str]:
        """The faults that hurt something right now, for people: `pause n2 (leader:t-1)`."""
        with self._holding:
            receipts = [held.receipt for _, held in sorted(self._held.items())]
        return [in_words(receipt) for receipt in receipts if receipt.effective is not False]

    def hurt(self) -> set[str]:
        """The servers that faults hurt now, without those that still recover."""
        return self._ledger.held()

    def quiet_since(self) -> int | None:
        """The time (ns) since which nothing has been injected, active or healed; None: something is right now."""
        with self._holding:
            return None if self._striking or self._held else self._quiet_ns

    def _lane_over(self, lane: str) -> None:
        """Note that a lane has healed what it injected."""
        with self._holding:
            self._striking.discard(lane)
            self._quiet_ns = self._clock()

    def _run(self, lane: str, timeline: Iterator[int]) -> None:
        mine = [injection.id for injection in self._schedule if injection.lane == lane]
        try:
            for wake_ns in timeline:
                if self._wait(self._stopped, wake_ns):
                    break
            for id_ in mine:
                self._heal(id_)
            self._lane_over(lane)
        except Exception as error:  # the lane ends; `stop` heals what it held, and reports this
            log.exception("nemesis lane broke", lane=lane)
            self._problem(f"lane {lane} broke: {type(error).__name__}: {error}")

    def _timeline(self, injections: Sequence[Injection], reasons: Mapping[int, str]) -> Iterator[int]:
        planned_end_ns = free_ns = self._t0_ns
        for _, together in groupby(injections, key=lambda injection: injection.at_s):
            group = list(together)
            pause_ns = self._planned_ns(group[0]) - planned_end_ns
            yield max(self._planned_ns(group[0]), free_ns + pause_ns)
            self._begun |= {injection.id for injection in group}
            self._striking.add(group[0].lane)
            ends_ns: dict[int, int] = {}
            for injection in group:
                if injection.id in reasons:
                    self._record(self._blank(injection, f"unavailable here, because {reasons[injection.id]}"))
                    continue
                yield from self._strike(injection)
                ends_ns[injection.id] = self._clock() + _ns(injection.lasts_s)
            for id_, end_ns in sorted(ends_ns.items(), key=lambda end: end[1]):
                if id_ in self._held:
                    yield end_ns
                    self._heal(id_)
            self._lane_over(group[0].lane)
            if ends_ns:
                planned_end_ns = max(self._planned_ns(injection) + _ns(injection.lasts_s) for injection in group)
                free_ns = self._clock()

    def _strike(self, injection: Injection) -> Iterator[int]:
        """Inject, at once or when the condition of `when` holds; if it never does, write a receipt without effect."""
        if (first := self._firsts.get(injection.id)) is not None and (why := self._aim(injection, first)):
            self._record(self._blank(injection, f"not injected: {why}"))
            return
        before = probe_pairs(self._cluster, self._ledger.cut())  # takes its time, so not between a condition and the strike
        if not injection.when:
            self._inject(injection, before)
            return
        began_ns = self._clock()
        while not (by := list(self._conditions[injection.when]())):
            if self._clock() - began_ns >= _ns(WHEN_WITHIN_S):
                self._record(self._blank(injection, f"not injected: no {injection.when} within {WHEN_WITHIN_S:g} s"))
                return
            yield self._clock() + _ns(LOOK_EVERY_S)
        waited_s = round((self._clock() - began_ns) / 1e9, 3)
        self._inject(injection, before, {"when": {"condition": injection.when, "by": by, "waited_s": waited_s}})

    def _aim(self, injection: Injection, first: int) -> str:
        """Make a fault for the node that the first one of its group has struck; the reason why there is none, or nothing."""
        aimed, why = same_target.aimed(injection, self._recorded.get(first), self._cluster)
        try:
            if aimed is not None:
                self._faults[injection.id] = self._make_fault(aimed)
        except CampaignError as error:
            why = str(error)
        return why

    def _judgeable(self, injection: Injection) -> Injection:
        """The injection with a target by which its fault can be made before anything is struck."""
        first = self._firsts.get(injection.id)
        if first is None:
            return injection
        return replace(injection, options=same_target.standing_in(injection.options, self._faults.get(first)))

    def _inject(self, injection: Injection, before: Reachability | None, more: Mapping[str, Any] | None = None) -> None:
        """Inject, and write the receipt. A fault that raised may have hurt something all the same, and is healed at once."""
        fault, blank, began_ns = self._faults[injection.id], self._blank(injection, ""), self._clock()
        view: Any = self._ledger.view(injection.id, injection.kind, strikes=True, needs=fault.needs)
        done, problem = _receipt_of("inject", lambda: fault.inject(view, Random(injection.seed)))
        receipt = replace(done or blank, id=injection.id, kind=injection.kind, planned_ns=blank.planned_ns)
        if (first := self._firsts.get(injection.id)) is not None:
            receipt = replace(receipt, role=SAME, evidence={**receipt.evidence, "same_as": first})
        by_s = self._ledger.clock_s(injection.id)  # also of a fault that raised, or does not say it
        more = {**({"by_s": by_s} if by_s and "by_s" not in receipt.evidence else {}), **(more or {})}
        receipt = replace(receipt, evidence={**receipt.evidence, **more}) if more else receipt
        if problem:
            receipt = replace(receipt, effective=False, note=problem)
        observed_ns = self._ledger.struck_ns(injection.id)
        struck_ns, doubt = _accepted_time("injected_ns", receipt.injected_ns, began_ns, self._clock(), observed_ns)
        receipt = replace(receipt, injected_ns=struck_ns, note=_joined([receipt.note, doubt]))
        if self._ledger.only_refused(injection.id):  # nothing was hurt, so there is nothing to heal
            self._record(replace(receipt, effective=False, healed_ns=receipt.injected_ns))
            return
        with self._holding:
            self._held[injection.id] = _Held(injection, fault, receipt)
        self._record(receipt)
        if problem:
            self._heal(injection.id)
        elif before is not None:
            self._note_reach(injection.id, reach_field(before, probe_pairs(self._cluster, self._ledger.cut())))

    def _note_reach(self, id_: int, reach: Mapping[str, Any]) -> None:
        """Add the pairs that are closed to the receipt that is written when the fault is healed."""
        with self._holding:
            held = self._held.get(id_)
            if held is not None:
                self._held[id_] = replace(held, receipt=replace(held.receipt, reach=reach))

    def _heal(self, id_: int, again: bool = False) -> None:
        """Heal. Pairs that another active fault cuts too stay cut until that one heals.

        A fault whose `heal` raised, or left something, is not healed: it stays held, and so do its nodes in the budget.
        again: heal also a fault that could not be healed before.
        """
        with self._holding:
            held = self._held.get(id_)
            if held is None or (held.failed and not again):
                return
            del self._held[id_]
        was, cut = held.receipt, self._ledger.cut(besides=id_)
        view: Any = self._ledger.view(id_, was.kind, needs=held.fault.needs)
        to_heal = replace(was, pairs=tuple(pair for pair in was.pairs if pair not in cut))
        done, problem = _receipt_of("heal", lambda: held.fault.heal(view, to_heal))
        healed, failed = _merged(was, done or was), problem or self._left(id_, done)
        notes = [healed.note, held.failed and f"not healed at first: {held.failed}"]
        notes += ["pairs cut by another fault as well stay cut"] if len(to_heal.pairs) < len(was.pairs) else []
        if failed:
            with self._holding:
                self._held[id_] = replace(held, failed=failed)
            self._record(replace(healed, healed_ns=0, note=_joined([*notes, f"{NOT_HEALED}{failed}"])))
            return
        for over in self._fired.pop(id_, ()):
            over.wait(FIRED_S)
        nodes = self._ledger.hurt(besides=id_)
        self._ledger.release(id_)
        ended_ns, doubt = _accepted_time("healed_ns", healed.healed_ns, was.injected_ns, self._clock())
        healed, notes = replace(healed, healed_ns=ended_ns), [*notes, doubt]
        meant = self._ledger.cut()
        after = probe_pairs(self._cluster, meant, PATIENT_PROBES)
        if after is not None:
            healed = replace(healed, reach={**was.reach, "after": after.plain()})
        notes.append(closed_pairs_note(was.reach, after, cut | meant | self._ledger.cut(), nodes))
        self._record(replace(healed, note=_joined(notes)))

    def _left(self, id_: int, healed: Receipt | None) -> str:
        """The damage that `heal` reports as not undone, without what other faults hurt now; empty when it undid all."""
        left = healed.healing.get("left") if healed is not None and isinstance(healed.healing, Mapping) else None
        others = {*self._ledger.hurt(besides=id_), *(f"{a}>{b}" for a, b in self._ledger.cut(besides=id_))}
        return ", ".join(text for text in map(str, left or ()) if text not in others)

    def _require_interfaces(self) -> None:
        classes = {type(self._faults[injection.id]): injection.kind for injection in self._schedule}
        wrong = [f"{kind}: {breach}" for cls, kind in classes.items() for breach in breaches(cls)]
        waited_for = {injection.when for injection in self._schedule if injection.when}
        wrong += [f'when = "{when}": nobody can tell here' for when in sorted(waited_for - self._conditions.keys())]
        if wrong:
            raise CampaignError(wrong)

    def _blank(self, injection: Injection, note: str) -> Receipt:
        role, planned_ns = str(injection.options.get("target", "")), self._planned_ns(injection)
        return Receipt(id=injection.id, kind=injection.kind, role=role, planned_ns=planned_ns, effective=False, note=note)

    def _planned_ns(self, injection: Injection) -> int:
        return self._t0_ns + _ns(injection.at_s)

    def _record(self, receipt: Receipt) -> None:
        line = {field.name: plain(getattr(receipt, field.name)) for field in fields(receipt)}
        log.info(
            "fault healed" if receipt.healed_ns else "fault",
            **{key: line[key] for key in ("id", "kind", "role", "targets", "effective", "healed_ns", "note")},
        )
        self._recorded[receipt.id] = receipt
        try:
            with self._writing:
                self._write(line)
            self.unwritten.discard(receipt.id)
        except (OSError, ValueError) as error:  # ValueError: the run is over, and its file closed
            self.unwritten.add(receipt.id)
            self._problem(f"the receipt of fault {receipt.id} could not be written: {error}")

    def _problem(self, text: str) -> None:
        self._problems.append(text)


def in_words(receipt: Receipt) -> str:
    """A fault in a few words: `pause n2 (leader:t-1)`."""
    words = [receipt.kind, ",".join(receipt.targets), f"({receipt.role})" if receipt.role else ""]
    return " ".join(filter(None, words))


def plain(value: Any) -> Any:
    """`value` as plain JSON, whatever a plug-in put into its evidence; a pair used as a key becomes `source>destination`."""
    if isinstance(value, Mapping):
        return {">".join(map(str, key)) if isinstance(key, tuple) else str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(element) for element in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _receipt_of(what: str, call: Callable[[], Any]) -> tuple[Receipt | None, str]:
    """The receipt that a plug-in returned, or what went wrong; a plug-in may raise anything, and the run goes on."""
    try:
        answer = call()
    except HarnessError as error:
        return None, f"{what} failed: {error}"
    except Exception as error:
        log.exception("fault raised", call=what)
        return None, f"{what} failed: {type(error).__name__}: {error}"
    if isinstance(answer, Receipt):
        return answer, ""
    return None, f"{what} returned {type(answer).__name__}, not a Receipt"


def _joined(notes: Iterable[str]) -> str:
    """Remarks as one text, each once."""
    return "; ".join(dict.fromkeys(filter(None, notes)))


def _merged(was: Receipt, healed: Receipt) -> Receipt:
    """The receipt of the injection with what healing adds to it."""
    return replace(
        was,
        evidence=healed.evidence or was.evidence,
        healing=healed.healing,
        effective=was.effective if healed.effective is None else healed.effective,
        note=healed.note or was.note,
        healed_ns=healed.healed_ns,
    )


def _accepted_time(name: str, claimed: Any, earliest_ns: int, now_ns: int, observed_ns: int | None = None) -> tuple[int, str]:
    """The time to record in a receipt's field, and a remark for its note if the fault's own value was rejected.

    The fault's value is accepted if it is a whole number from `earliest_ns` to `now_ns`. Otherwise the time is `observed_ns`, or
    `now_ns` if the runner observed none. A fault that left the field empty gets no remark.
    """
    if whole_number(claimed) and earliest_ns <= claimed <= now_ns:
        return claimed, ""
    remark = f"its {name} ({claimed}) is no moment between the call and its end, and is not kept" if claimed else ""
    return now_ns if observed_ns is None else observed_ns, remark


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
