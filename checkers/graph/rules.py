"""Rules of each class of cycles: when it is forbidden (`checkers.contract.rules`). Its check has the same."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.checkers.contract.common_rules import COORDINATOR_CUT_OFF, UNLESS_PRODUCER, UNLESS_TRANSACTIONAL
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule, rule_for
from fencepost.checkers.graph.layers import BY_PROCESS, BY_TIME, LAYERS, NO_ORDER, READS, Layer

_DECIDED = {
    NO_ORDER: "read_committed returns a record after its transaction was decided, so polls have an order (KIP-98; Adya)",
    BY_PROCESS: "as G1c-wr, in one order with what each process did after what",
    BY_TIME: "as G1c-wr, in one order with what had ended before what began",
}
_UNORDERED = "Kafka orders each partition alone: transactions may interleave differently in two of them (KIP-98)"
_LAGGING = "a consumer may stand anywhere in each partition: Kafka promises no snapshot and no fresh read (KIP-98)"
_DEMANDED = "the test's own contract forbids this class of cycles"


def rules_of(layer: Layer) -> tuple[Rule, ...]:
    """The rules of a class of cycles. One that Kafka permits is forbidden when the contract's `cycles` names it."""
    if not is_permitted(layer):
        uncommitted = Rule(
            ALLOWED, "read_uncommitted readers get records before they are decided", {"isolation": "!read_committed"}
        )
        forbidden = Rule(FORBIDDEN, _DECIDED[layer.order])
        return (UNLESS_PRODUCER, UNLESS_TRANSACTIONAL, uncommitted, *COORDINATOR_CUT_OFF, forbidden)
    demanded = Rule(FORBIDDEN, _DEMANDED, {"cycles": f"has:{layer.name}"})
    return (UNLESS_PRODUCER, demanded, Rule(ALLOWED, _LAGGING if layer.anti else _UNORDERED))


def is_permitted(layer: Layer) -> bool:
    """True if Kafka permits such cycles: all but those of reads at read_committed."""
    return layer.family != READS


def forbidden_layers(contract: Mapping[str, str]) -> list[str]:
    """The layers whose cycles are forbidden under a full contract."""
    return [layer.name for layer in LAYERS if rule_for(rules_of(layer), contract).judged == FORBIDDEN]
