"""The graph checks: one per class of cycles, all answered by one search over the run (Adya; Elle; KIP-98).

What each class may and must use is a row of `checkers.graph.layers`; how it is found, docs/graphs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from fencepost.checkers.api import Check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.needs import ALL_READS, FINAL, LEVELS, OUTCOMES, POLLS, SENDS, UNCOMMITTED_READER, Needs
from fencepost.checkers.graph import explain
from fencepost.checkers.graph.edge_filter import EdgeFilter, edge_filter_for
from fencepost.checkers.graph.edges import gather
from fencepost.checkers.graph.examples import example
from fencepost.checkers.graph.layers import LAYERS, READS, Layer
from fencepost.checkers.graph.rules import forbidden_layers, is_permitted, rules_of
from fencepost.checkers.graph.run_search import find_cycles
from fencepost.checkers.graph.search_tasks import Cycles
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.planted import PlantedDamage
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.selfcheck.cycle_damages import READ_EACH_OTHER, READ_FUTURE, READ_OWN_FUTURE
from fencepost.checkers.selfcheck.pipeline_damages import POLL_SUCCESSOR
from fencepost.checkers.selfcheck.schedules import scheduled
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import ACYCLIC

_DEFINITIONS = {
    "G1c-wr": "A cycle of operations that read each other's records, through read_committed readers.",
    "G0": "A cycle of operations whose records follow each other, over several partitions.",
    "G1c": "A cycle of operations whose records follow each other or were read, with at least one read.",
    "G-single": "A cycle with exactly one operation that read up to right below another one's record.",
    "G2": "A cycle with two or more operations that each read up to right below another one's record.",
}
_TIME_EDGE = (
    "",
    " At least one step is the order of two operations of a process.",
    " At least one step is that an operation had ended before another began.",
)
_TWIN = "Slow twin: `shortest_cycles` in tests/support/graph_reference.py."
_NEEDS = (
    "no two operations wrote to one partition",
    "nobody read below a record",
)
_NEEDS_READ = (
    "no operation that writes read another one's record",
    "no process that writes read another operation's record",
    "no record was read by another operation than its writer",
)
_READS_NEED = Needs({SENDS, OUTCOMES, POLLS}, "an operation that is missing may close a cycle", {LEVELS}, UNCOMMITTED_READER)
_ORDER_NEEDS = Needs(
    {SENDS, OUTCOMES, *ALL_READS},
    "an operation that is missing may close a cycle",
    {SENDS, *FINAL, LEVELS},
    "a record that is missing may lie between two others, and a lost one has no place",
)
_PLANTED: Mapping[str, tuple[PlantedDamage, ...]] = {
    "G1c-wr": (READ_EACH_OTHER, POLL_SUCCESSOR),
    "G1c-wr-process": (READ_OWN_FUTURE,),
    "G1c-wr-realtime": (READ_FUTURE,),
}
_ANSWERS: WeakKeyDictionary[RunView, Cycles | Exception] = WeakKeyDictionary()


def cycles_of(run: RunView) -> Cycles:
    """Every layer's answer; searched once for a run, whichever check asks first. Raises what the search raised, each time."""
    if run not in _ANSWERS:
        try:
            _ANSWERS[run] = find_cycles(run)
        except Exception as error:  # noqa: BLE001 - raised again below, for every check that asks
            _ANSWERS[run] = error
    answer = _ANSWERS[run]
    if isinstance(answer, Exception):
        raise answer
    return answer


def graph_check(layer: Layer) -> Check[RunView]:
    """The check of one class of cycles. compared: edges without which there is no such cycle. One finding: the smallest cycle."""

    def smallest_cycle(run: RunView) -> CheckResult:
        cycles = cycles_of(run)
        answer = cycles.layers[layer.name]
        if not answer.cycle:
            return CheckResult(answer.compared, unknown=answer.unknown)
        return CheckResult(answer.compared, explain.rows(answer.cycle, cycles.partitions, cycles.records, run))

    def sentence(finding: Finding, text: FindingText) -> str:
        cycles = cycles_of(text.run)
        return explain.sentence(cycles.layers[layer.name].cycle, cycles.partitions, finding, text)

    def detail(finding: Finding, text: FindingText) -> dict[str, object]:
        cycles = cycles_of(text.run)
        return {"cycle": explain.drawing(cycles.layers[layer.name].cycle, cycles.partitions, finding, text)}

    base = layer.name.removesuffix("-process").removesuffix("-realtime")
    smallest_cycle.__doc__ = f"{_DEFINITIONS[base]}{_TIME_EDGE[layer.order]}\n\n{example(layer.name)}\n\n{_TWIN}"
    return Check(
        layer.name,
        "run",
        smallest_cycle,
        across=True,
        explain=sentence,
        gather=gather,
        brief=_brief,
        detail=detail,
        needs=_NEEDS_READ[layer.order] if base.startswith("G1c") else _NEEDS[bool(layer.anti)],
        promise=ACYCLIC,
        attribution=Attribution.RECORDS if is_permitted(layer) else Attribution.PAIR,
        rules=rules_of(layer),
        evidence=_READS_NEED if layer.family == READS else _ORDER_NEEDS,
        damages=(*_PLANTED.get(layer.name, ()), _scheduled(layer)),
    )


def _scheduled(layer: Layer) -> PlantedDamage:
    """The schedule with such a cycle; a cycle of reads is one of reads and writes as well, a permitted one forbidden for it."""
    if is_permitted(layer):
        return scheduled(layer.name, cycle=layer.name)
    return scheduled(layer.name, (layer.name.replace("G1c-wr", "G1c"),))


def _brief(run: RunView) -> EdgeFilter | None:
    return edge_filter_for(run.overview, forbidden_layers(run.contract))


CHECKS = {layer.name: graph_check(layer) for layer in LAYERS}
G0, G0_process, G0_realtime = (CHECKS[f"G0{suffix}"] for suffix in ("", "-process", "-realtime"))
G1c_wr, G1c_wr_process, G1c_wr_realtime = (CHECKS[f"G1c-wr{suffix}"] for suffix in ("", "-process", "-realtime"))
G1c, G1c_process, G1c_realtime = (CHECKS[f"G1c{suffix}"] for suffix in ("", "-process", "-realtime"))
G_single, G_single_process, G_single_realtime = (CHECKS[f"G-single{suffix}"] for suffix in ("", "-process", "-realtime"))
G2, G2_process, G2_realtime = (CHECKS[f"G2{suffix}"] for suffix in ("", "-process", "-realtime"))
