"""Exchanges between clients and transaction coordinators, as they were on the wire, beside the machine of KIP-98 (docs/wire.md).

The docstring is the definition of the anomaly (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections import Counter

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import DECIDING
from fencepost.checkers.contract.common_rules import DECISIONS_CUT_OFF, UNLESS_DECIDED, cut_off
from fencepost.checkers.contract.needs import WIRE, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import FOREVER
from fencepost.checkers.pipeline.aborted_lists import wrongly_listed
from fencepost.checkers.pipeline.wire_findings import WireFinding, WireResult, explained_by_wire, found_on_wire, whole
from fencepost.checkers.pipeline.wire_log import WireLog
from fencepost.checkers.selfcheck.wire_damages import BACK, BOTH, NOTHING, OUTDATED
from fencepost.checkers.views.run_view import Fencing, RunView
from fencepost.checkers.wire.exchanges import Breach
from fencepost.harness.api.promises import FENCED
from fencepost.harness.api.wire import OPERATORS_CLIENT
from fencepost.harness.api.words import and_more, enumeration

NO_EXCHANGES = "no transactional id was initialised on the wire, and then made a request"
OPERATOR = "an operator fenced it, beside the proxies"
NAMED = 3  # ids that a sentence names
EVIDENCE = Needs(
    {WIRE}, "what is missing of the record may have shown it", {WIRE}, "what is missing of the record may explain it"
)


def violations(run: RunView) -> WireResult:
    """Exchanges that the machine forbids, over all transactional ids."""
    from fencepost.checkers.wire.judging import Steps, judged  # here: only runs with proxies pay for the machine
    from fencepost.checkers.wire.machine import Machine

    log, machine = whole(run), Machine(expires=run.ids_expire is not False)
    fenced = None if run.fencings is None else {one.transactional_id for one in run.fencings if not _is_recorded(one, log)}
    steps = Steps(sum(map(len, log.of_ids.values())))
    compared, found, unjudged, skipped = 0, list[WireFinding](), Counter[str](), Counter[str]()
    for number, (name, exchanges) in enumerate(sorted(log.of_ids.items())):
        if reason := log.unknown.get(name) or ("nobody knows what operators did" if fenced is None else ""):
            unjudged[reason] += 1
        elif fenced and name in fenced:
            unjudged[OPERATOR] += 1
        else:
            result = judged(machine, exchanges, steps)
            compared += result.compared
            skipped[name] += result.skipped
            found += [WireFinding(name, _time(breach), _sentence(name, breach), number) for breach in result.breaches]
    if run.contract["operator_aborts"] == "none":
        more, listed = wrongly_listed(log)
        compared, found = compared + more, [*found, *listed]
    total = len(log.of_ids)
    why = "; ".join(f"{count} of {total} transactional ids were not judged: {reason}" for reason, count in unjudged.items())
    if log.why:
        why = "; ".join(filter(None, (why, log.why)))
    return WireResult(compared, found, NO_EXCHANGES, "" if found else why, _bound(+skipped, compared))


def _bound(skipped: Counter[str], compared: int) -> str:
    """What the bound on possible states left out."""
    if not skipped:
        return ""
    from fencepost.checkers.wire.judging import TOO_MANY

    of = f"{skipped.total():,} of {skipped.total() + compared:,} answers were not compared"
    return f"{of}, those to {enumeration(sorted(skipped)[:NAMED])}{and_more(len(skipped) - NAMED)}: {TOO_MANY}"


def _is_recorded(fencing: Fencing, log: WireLog) -> bool:
    """True if an operator's request to fence passed a proxy: clusters of fencepost's own send it by one."""
    ended = FOREVER if fencing.ended is None else fencing.ended
    return any(
        row["client_id"] == OPERATORS_CLIENT
        and row["api"] == "InitProducerId"
        and row["transactional_id"] == fencing.transactional_id
        and fencing.began <= row["forwarded_ns"] <= ended
        for row in log.rows
    )


def _time(breach: Breach) -> int:
    return breach.exchange.ended or breach.exchange.began


def _sentence(name: str, breach: Breach) -> str:
    exchange = breach.exchange
    answered = f"{exchange.node} answered {exchange.request} of {name} with {exchange.answer}, which nothing allows"
    state = f"its state was {breach.states}" + (f" ({breach.raised})" if breach.raised else "")
    if breach.known:
        return f"{answered}: {state}. Known: {breach.known}"
    return f"{answered}: {state}; {'; and '.join(breach.sentences) or 'no transition answers so'}"


@run_check(
    "protocol-violation",
    promise=FENCED,
    rules=(
        UNLESS_DECIDED,
        *cut_off("the coordinator may forget what it had answered"),
        *DECISIONS_CUT_OFF,
        Rule(FORBIDDEN, "a coordinator answers as the state of the transactional id demands (KIP-98, KIP-360, KIP-890)"),
    ),
    evidence=EVIDENCE,
    occasions=DECIDING,
    damages=(BOTH, BACK, OUTDATED, NOTHING),
    explain=explained_by_wire(violations),
    across=True,
    needs=NO_EXCHANGES,
)
def protocol_violation(run: RunView) -> CheckResult:
    """An answer on the wire that no order of the exchanges explains.

    Proxies between clients and brokers recorded the requests and the brokers' answers (`wire.parquet`). The state of a
    transactional id at its coordinator is that of a machine (docs/wire.md): which requests it grants in which state, with which
    producer id and epoch, and which it refuses with which error. An exchange took effect at some instant between being forwarded
    and being answered; one without an answer, or with an error that says nothing of the state, at any later instant or never. The
    coordinator may abort a transaction for its age, and complete what is decided, at any time. The finding is the first answer
    for which no such order is left, with the rules that forbid it.

    So is a broker's answer to a read_committed Fetch by which a transaction is aborted (it is listed so, or has such a marker),
    although its coordinator had granted the commit: readers drop its records, and where nothing lies behind nobody misses them.

    Judged are ids from their first answered InitProducerId on. Where more than 4,096 states are possible at once, or to find them
    takes too many steps, answers up to the next one are not compared, and it is said how many. Not judged are ids that an
    operator fenced by a request that passed no proxy, requests of unknown versions, and what is behind the end of a broker's
    record.

    compared: answers while the state of their id was known, and batches that such answers abort. One cause: the transactional id.

    Slow twin: `explained` in tests/support/wire_reference.py.
    """
    return found_on_wire(violations)(run)
