"""Occasions of KIP-618's promises about settings that nobody may change, workers' protocol, and internal requests (KIP-507)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fencepost.checkers.anomalies.connect_occasions import Occasions, configured, failed_tasks, started
from fencepost.checkers.anomalies.connect_offset_occasions import read_committed
from fencepost.checkers.pipeline.connect_log import ConnectLog
from fencepost.checkers.views.run_view import RunView

OWN_ID, WORKERS_ID, LEADERS_ID = "producer.override.transactional.id", "producer.transactional.id", "transactional.id"
OWN_ISOLATION, WORKERS_ISOLATION = "consumer.override.isolation.level", "consumer.isolation.level"
PROTOCOL = "connect.protocol"
INTERNAL = (("PUT", "/fence"), ("POST", "/tasks"))  # requests of one worker to another, by the ends of their paths
REFUSED = (400, 403)  # no signature; a wrong one


def overridden_ids(run: RunView, log: ConnectLog) -> Occasions:
    """Producers that wrote though a transactional id was set for them: by their own ids, and none by that one."""
    answer, first = Occasions(), next(_accepted(log), None)
    for request, wanted, of_leader in _wanted_ids(log):
        since = 0.0 if request is first else log.wall_ms(request["end"])
        if since is None:
            continue
        later = [session for session in log.sessions if session.start.timestamp >= since and session.wrote]
        foreign = [session for session in log.sessions if session.transactional_id == wanted and session.wrote]
        answer.met += sum(session.is_leader == of_leader and session.transactional_id != wanted for session in later)
        answer.entries += [[(session.start, "sent")] for session in foreign]
        break  # later configurations have it, too
    return answer


def _wanted_ids(log: ConnectLog) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
    """Accepted requests of configurations that set a transactional id: the id, and whether it is the leader's."""
    for request in _accepted(log):
        settings = {**_workers(request), **configured(request)}
        for key in (OWN_ID, WORKERS_ID, LEADERS_ID):
            if key in settings:
                yield request, settings[key], key == LEADERS_ID


def overridden_isolation(run: RunView, log: ConnectLog) -> Occasions:
    """Tasks that started after an aborted offset, though their consumer was to read uncommitted ones."""
    wanted = [{**_workers(request), **configured(request)} for request in _accepted(log)]
    if not any("read_uncommitted" in (settings.get(OWN_ISOLATION), settings.get(WORKERS_ISOLATION)) for settings in wanted):
        return Occasions()
    known = read_committed(run, log)
    return Occasions(known.met, elsewhere=known.violated)


def eager(run: RunView, log: ConnectLog) -> Occasions:
    """Tasks that wrote, of workers that rebalance eagerly."""
    if not any(_workers(request).get(PROTOCOL) == "eager" for request in _accepted(log)):
        return Occasions()
    known = started(run, log)
    return Occasions(known.met, elsewhere=known.violated)


def unsigned(run: RunView, log: ConnectLog) -> Occasions:
    """Requests that only workers may make, without their signature."""
    answer = Occasions()
    for request in log.requests:
        path = str(request.get("path", ""))
        if any(request.get("method") == method and path.endswith(end) for method, end in INTERNAL):
            answer.met += request.get("status") in REFUSED
            answer.requests += [request] if request.get("status") in (200, 201, 202, 204) else []
    return answer


def denied(exception: str) -> Callable[[RunView, ConnectLog], Occasions]:
    """Tasks that have failed for a permission of one kind, by the exception's name in their reason."""

    def occasions(run: RunView, log: ConnectLog) -> Occasions:
        return Occasions(sum(exception in trace for *_, trace in failed_tasks(log)))

    return occasions


def _accepted(log: ConnectLog) -> Iterator[Mapping[str, Any]]:
    """Requests of configurations that were accepted."""
    return (request for request in log.requests if configured(request) and request.get("status") in (200, 201))


def _workers(request: Mapping[str, Any]) -> Mapping[str, str]:
    """The settings of the workers, beside ours, that a request tells."""
    workers = request.get("workers")
    return {str(key): str(value) for key, value in workers.items()} if isinstance(workers, dict) else {}
