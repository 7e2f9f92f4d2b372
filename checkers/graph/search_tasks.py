"""Order of the search: what is searched when, what is left out, and what that leaves unknown; and the answer of each layer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fencepost.checkers.graph.edge_filter import EdgeFilter
from fencepost.checkers.graph.explain import Records
from fencepost.checkers.graph.layers import ANTI, ANTI_TIME, LAYERS, READS, WRITES, Layer
from fencepost.checkers.graph.span_rows import Edge
from fencepost.checkers.graph.spans import SpanSet, merge_all
from fencepost.harness.api.words import form, plural

LARGEST = {READS: 100_000, WRITES: 20_000, ANTI: 3_000, ANTI_TIME: 3_000}  # operations of a span that is searched whole
SAMPLE = 30  # spans of a permitted family looked at first
SMALL_REST = 5_000  # operations: a permitted class is searched beyond the sample only while that is so little
PIECES, PIECE = 2, 250  # of a span too large: how many pieces are searched, of how many operations
NAMED = "a contract with `cycles` naming the class has all searched"


@dataclass
class LayerAnswer:
    """The answer about one layer: its shortest cycle, how many edges were looked at, and why it cannot be answered."""

    compared: int = 0
    cycle: tuple[Edge, ...] = ()
    unknown: str = ""


@dataclass
class Cycles:
    """Every layer's answer by name, the partitions that `Edge.place` counts, and the records behind the cycles' edges."""

    layers: dict[str, LayerAnswer]
    partitions: list[str]
    records: Records = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)  # family -> sizes of its spans, largest first (a few)


@dataclass(frozen=True)
class SearchTask:
    """Spans to search for the layers of a family.

    rank_family: the family whose ranks `spans` are ranges of.
    """

    family: str
    rank_family: str
    spans: SpanSet
    layers: tuple[Layer, ...]


def rounds(spans: Mapping[str, SpanSet], cycles: Cycles, forbidden: Collection[str]) -> Iterator[list[SearchTask]]:
    """Two rounds of tasks; between them the caller searches, so that `cycles` holds what was found.

    First all spans of the family that Kafka forbids (`READS`), a sample of `SAMPLE` spans of each other one, evenly from the
    first to the last, and a few pieces of the spans that are too large. Then the rest, for layers that showed no cycle yet: a
    permitted layer is searched on only where that is quick, and else says so.
    """
    first, rest = [], []
    for family, in_family in spans.items():
        layers = tuple(layer for layer in LAYERS if layer.family == family and cycles.layers[layer.name].compared)
        small = in_family.pick(in_family.sizes <= LARGEST[family])
        sample = np.zeros(len(small), dtype=np.bool_)
        sample[np.unique(np.linspace(0, len(small) - 1, SAMPLE).astype(np.int64)) if len(small) else []] = True
        sample |= family == READS
        first.append(SearchTask(family, family, small.pick(sample), layers))
        rest.append((family, small.pick(~sample), layers))
        if len(small) < len(in_family):
            rank_family = ANTI if family == ANTI_TIME else family
            first.append(SearchTask(family, rank_family, _pieces(in_family.pick(in_family.sizes > LARGEST[family])), layers))
    yield [task for task in first if len(task.spans) and task.layers]
    yield [task for task in _second_round(rest, cycles, forbidden) if task.layers]


def _second_round(
    rest: Sequence[tuple[str, SpanSet, tuple[Layer, ...]]], cycles: Cycles, forbidden: Collection[str]
) -> Iterator[SearchTask]:
    """The rest of the first round, for the layers that must have it; in the others' answers, how much was not searched."""
    for family, spans, layers in rest:
        left = int(spans.sizes.sum())
        if not left:
            continue
        unanswered = [layer for layer in layers if not cycles.layers[layer.name].cycle]
        wanted = tuple(layer for layer in unanswered if layer.name in forbidden or left <= SMALL_REST)
        yield SearchTask(family, family, spans, wanted)
        for layer in unanswered:
            if layer not in wanted:
                why = f"permitted here, so {len(spans)} places of {left} operations were left out after a sample showed none"
                cycles.layers[layer.name].unknown = f"{why}; {NAMED}"


def _pieces(large: SpanSet) -> SpanSet:
    """A few pieces, evenly over the large spans."""
    parts = []
    for low, high in zip(large.low[:PIECES], large.high[:PIECES], strict=True):
        starts = np.unique(np.linspace(low, max(low, high - PIECE), max(1, PIECES // len(large))).astype(np.int64))
        parts.append(SpanSet(starts, np.minimum(starts + PIECE - 1, high)))
    return merge_all(parts)


def mark_unknown(spans: Mapping[str, SpanSet], cycles: Cycles, edge_filter: EdgeFilter | None) -> None:
    """Layers without a cycle are unknown when not everything was searched."""
    for layer in LAYERS:
        answer, sizes = cycles.layers[layer.name], spans[layer.family].sizes
        large = sizes[sizes > LARGEST[layer.family]]
        if answer.cycle or not answer.compared:
            continue
        if len(large):
            what = f"{plural(len(large), 'span')} of up to {int(large.max())} operations"
            answer.unknown = f"{what} {form(len(large), 'is', 'are')} too large to be searched whole"
        elif edge_filter is not None and layer.anti:
            stretches = edge_filter.stretches
            what = f"{len(stretches)} stretches of {int(stretches.sizes.max())} operations showed none, and"
            answer.unknown = f"permitted here: {what} the rest was left out; {NAMED}"
