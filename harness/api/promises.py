"""Promises that anomalies break: an anomaly belongs to one (`Check.promise`)."""

from __future__ import annotations

ACKNOWLEDGED = "acknowledged is kept"
ONCE = "once only"
ATOMIC = "whole or not at all"
ISOLATED = "aborted stays unseen"
ORDERED = "in order"
COMPLETE = "reads miss nothing"
FENCED = "fenced stays out"
PROCESSED_ONCE = "processed once"
ONE_LOG = "one log"
LIVE = "readers go on"
RECOVERING = "clients recover"
CLIENT_PROMISES = (ACKNOWLEDGED, ONCE, ATOMIC, ISOLATED, ORDERED, COMPLETE, FENCED, PROCESSED_ONCE, ONE_LOG, LIVE, RECOVERING)

PROGRAM = "a program's outputs and state follow from its inputs"
CONNECTOR = "a connector's source is in the topic once, with its offsets"
ACYCLIC = "dependencies form no cycle"
OTHER_PROMISES = (PROGRAM, CONNECTOR, ACYCLIC)  # not of clients
PROMISES = (*CLIENT_PROMISES, *OTHER_PROMISES)


def place_of(promise: str) -> int:
    """The place of a promise in the order of these; promises of a check's own come last."""
    return PROMISES.index(promise) if promise in PROMISES else len(PROMISES)
