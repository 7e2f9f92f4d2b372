"""What a rule says of the fields of messages, compared with those that Kafka has: what no message has can never match.

`java/FieldChecks.java` has the same checks, with the fields of the release that the proxy runs with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from fencepost.harness.proxy import names

Path = tuple[str, ...]
OF_REQUESTS: Mapping[str, frozenset[str]] = {  # keys of a rule -> the fields of requests that they are compared with
    "transactional_id": frozenset({"transactionalId", "v3AndBelowTransactionalId", "transactionalIds"}),
    "group": frozenset({"groupId", "groups", "groupsNames", "groupIds"}),
    "producer_id": frozenset({"producerId", "v3AndBelowProducerId"}),
}
PLACES = ("topic", "partition")
PARTITIONS = frozenset({"partitions", "partitionData", "partitionIndexes", "partitionResponses", "resultsByPartition"})
TOPICS = frozenset({"name", "topic", "topicName", "topicId"})
BY_BROKERS = (  # as `java/Brokers.java` has them
    {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "WriteTxnMarkers", "AlterPartition"}
    | {"AllocateProducerIds", "BrokerRegistration", "BrokerHeartbeat", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch"}
    | {"FetchSnapshot", "AssignReplicasToDirs", "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState"}
    | {"DeleteShareGroupState", "ReadShareGroupStateSummary"}
)
BY_CLIENTS = {"Produce", "InitProducerId", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "OffsetCommit", "OffsetFetch"} | {
    "JoinGroup",
    "SyncGroup",
    "LeaveGroup",
    "Heartbeat",
    "ConsumerGroupHeartbeat",
}
_RANGES = {
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (16, 32)},
}
_ERROR = "errorcode"  # the end of the name of every field with one
_LONGEST = 40  # letters of a value that are shown


def mistakes(rule: Mapping[str, Any], transforms: Mapping[str, str]) -> Iterator[str]:
    """What can never match, or be set, each with its key and what may be meant. APIs that Kafka does not have are left out.

    transforms: the API of each transformation.
    """
    only = transforms.get(str(rule.get("transform")))
    answer = rule.get("on") == "answer" or only is not None
    entries: list[str | None] = [only] if only else [*names.texts(rule.get("api"))] or [None]
    for given in entries:
        apis = [name for name in names.known().apis if given is None or names.matches(given, name)]
        if apis:
            yield from _of_apis(rule, given, apis, answer)


def _of_apis(rule: Mapping[str, Any], given: str | None, apis: Sequence[str], answer: bool) -> Iterator[str]:
    yield from _named(rule, given, apis)
    if "error" in rule and answer and not any(has_errors(api) for api in apis):
        yield f"error: answers of {given} have no error; leave it out"
    if rule.get("act") == "error" and not any(has_errors(api) for api in apis):
        yield f"api: answers of {given} have no error; use act drop or lose"
    if rule.get("connection_of") == "client" and all(api in BY_BROKERS for api in apis):
        yield f"connection_of: brokers alone send {given}; leave it out"
    if rule.get("connection_of") == "broker" and all(api in BY_CLIENTS for api in apis):
        yield f"connection_of: brokers do not send {given}; leave it out"
    for key in ("where", "set"):
        table = rule.get(key)
        for path, value in table.items() if isinstance(table, Mapping) else ():
            if problem := _problem(key, path, value, given, apis, answer):
                yield f"{key}: {path}: {problem}"


def _named(rule: Mapping[str, Any], given: str | None, apis: Sequence[str]) -> Iterator[str]:
    """Keys that are about what requests name, where these name no such thing."""
    for key in OF_REQUESTS:
        if key in rule and not any(_names(api, key) for api in apis):
            yield f"{key}: {given} requests have no {key}; leave it out"
    for key in PLACES:
        if key in rule and not any(_has_places(api) for api in apis):
            yield f"{key}: {given} requests name no partitions of topics; leave it out{_topics(apis)}"
    if "state" in rule and not any(_has_state(api) for api in apis):
        yield f"state: {given} requests name no producer; leave it out"


def _topics(apis: Sequence[str]) -> str:
    paths = [".".join(path) for api in apis for path, _ in _fields(api, False, False) if _last(path) in {*TOPICS, "topicNames"}]
    return f", or use where with {paths[0]}" if paths else ""


@cache
def has_errors(api: str) -> bool:
    """True if answers of an API have an error in any version. An API whose messages are not known may have one."""
    fields = _fields(api, True, False)
    return not fields or any(_last(path).lower().endswith(_ERROR) for path, _ in fields)


@cache
def _names(api: str, key: str) -> bool:
    fields = _fields(api, False, False)
    own = api == ("Produce" if key == "producer_id" else "FindCoordinator")  # in batches, and as keys
    return not fields or own or any(_last(path) in OF_REQUESTS[key] for path, _ in fields)


@cache
def _has_places(api: str) -> bool:
    fields = _fields(api, False, False)
    topics = {path[:-1] for path, _ in fields if path[-1] in TOPICS}
    return not fields or any(kind == "list" and path[-1] in PARTITIONS and path[:-1] in topics for path, kind in fields)


def _has_state(api: str) -> bool:
    return api == "FindCoordinator" or _names(api, "producer_id")


@cache
def _fields(api: str, answer: bool, records: bool) -> tuple[tuple[Path, str], ...]:
    """All fields by their paths, with `*` for the elements of a list. records: with the bytes of records, not with their size."""
    known = names.known().apis[api]
    return tuple(_walk(known.answer if answer else known.request, (), records))


def _walk(node: Any, path: Path, records: bool) -> Iterator[tuple[Path, str]]:
    if isinstance(node, str):
        yield path, node
    elif isinstance(node, list):
        yield path, "list"
        yield from _walk(node[0], (*path, "*"), records)
    else:
        if path:
            yield path, "mapping"
        for name, inner in node.items():
            if inner == "records" and not records:
                yield (*path, "recordsSizeInBytes"), "int32"
            else:
                yield from _walk(inner, (*path, name), records)


def _problem(key: str, path: str, value: Any, given: str | None, apis: Sequence[str], answer: bool) -> str | None:
    """Why a path has no such value in any of these messages; None: it may have."""
    if not any(_fields(api, answer, False) for api in apis):
        return None  # what it has is not known
    if key == "where" and isinstance(value, Mapping):
        return f'is a table; write the whole path in quotes, as "{path}.{next(iter(value), "*")}"'
    records = key == "set"
    asked = path.split(".")
    kinds = dict.fromkeys(kind for api in apis for at, kind in _fields(api, answer, records) if _fits(asked, at))
    if not kinds:
        return _nowhere(asked, given, apis, answer, records)
    values = value if key == "where" and isinstance(value, (list, tuple)) and value else [value]
    for one in values:
        reasons = [_unfit(kind, asked, one, records) for kind in kinds]
        if None not in reasons:
            inside = kinds.keys() & {"list", "mapping"} and key == "where"
            return f"{reasons[0]}{_inside(asked, apis, answer) if inside else ''}"
    return None


def _fits(asked: Sequence[str], path: Path) -> bool:
    return len(asked) == len(path) and all(
        one in ("*", part) or (part == "*" and re.fullmatch("[0-9]{1,9}", one)) for one, part in zip(asked, path, strict=True)
    )


def _nowhere(asked: Sequence[str], given: str | None, apis: Sequence[str], answer: bool, records: bool) -> str:
    what = "answer" if answer else "request"
    if given is None:
        text = f"no {what} of Kafka's has such a field"
    elif names.is_pattern(given):
        text = f"no {what} like {given} has such a field"
    else:
        text = f"{given} has no such field in its {what}s"
    if any(_fits(asked, at) for api in apis for at, _ in _fields(api, not answer, records)):
        return f"{text}; with on = {'request' if answer else 'answer'} it has"
    paths = [".".join(at) for api in apis for at, kind in _fields(api, answer, records) if kind not in ("list", "mapping")]
    return text + names.alike(".".join(asked), dict.fromkeys(paths))


def _inside(asked: Sequence[str], apis: Sequence[str], answer: bool) -> str:
    """The values below a list or a mapping."""
    paths = dict.fromkeys(
        ".".join(at)
        for api in apis
        for at, kind in _fields(api, answer, False)
        if _fits(asked, at[: len(asked)]) and kind not in ("list", "mapping")
    )
    return f"; did you mean {', '.join(list(paths)[: names.MOST_ALIKE])}?"


def _unfit(kind: str, path: Sequence[str], value: Any, to_set: bool) -> str | None:
    """Why a field of a kind cannot have a value; None: it can."""
    shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    if kind in ("list", "mapping", "bytes", "records"):
        if not to_set:
            return f"is {'bytes' if kind in ('bytes', 'records') else f'a {kind}'}, which no value equals"
        fitting: Any = {"list": list, "mapping": Mapping}.get(kind, str)
        return None if value is None or isinstance(value, fitting) else f"is {_a(kind)}, not {shown}"
    if kind == "boolean":
        return None if isinstance(value, bool) else f"is true or false, not {shown}"
    if kind in _RANGES:
        return _unfit_number(kind, path, value, shown)
    if kind == "float64":
        return None if isinstance(value, (int, float)) and not isinstance(value, bool) else f"is a number, not {shown}"
    return None if isinstance(value, str) or (to_set and value is None) else f"is a text, not {shown}"


def _a(kind: str) -> str:
    return f"a {kind}" if kind in ("list", "mapping") else "bytes, as a text in base64"


def _unfit_number(kind: str, path: Sequence[str], value: Any, shown: str) -> str | None:
    least, most = _RANGES[kind]
    errors = names.known().errors if path[-1].lower().endswith(_ERROR) else {}
    if isinstance(value, str) and value in errors:
        return f"is the number of an error, not its name; {value} is {errors[value]}"
    whole = not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    if not (whole and least <= value <= most):
        return f"is a whole number from {least} to {most}, not {shown}"
    return None if not errors or value in errors.values() else f"is the number of an error, and Kafka has none with {shown}"


def _last(path: Path) -> str:
    """The name of a field, without the `*` of elements."""
    return next((part for part in reversed(path) if part != "*"), "")
