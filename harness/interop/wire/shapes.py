"""The JSON in the columns of a record, as far as a history is made of it; what has another form is damage."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict, TypeVar

import msgspec

Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
T = TypeVar("T")


class _Head(TypedDict, total=False):
    """A batch."""

    producer_id: Number
    epoch: Number
    first_sequence: Number
    records: Number | None
    crc: Number | None
    base_offset: Number
    last_offset: Number
    transactional: bool
    control: str


class _Place(TypedDict, total=False):
    """What a request or an answer says of a partition."""

    topic: str
    topic_id: str
    partition: Number
    group: str
    offset: Number
    error: str
    base_offset: Number
    high_watermark: Number
    log_start: Number
    aborted: list[tuple[Number, Number]]
    batches: list[_Head]


class _Named(TypedDict, total=False):
    """A topic or a group inside a request or an answer."""

    name: str | None
    topicId: str | None
    errorCode: Number
    groupId: str | None
    memberId: str | None


class _Replica(TypedDict, total=False):
    replicaId: Number


class _Body(TypedDict, total=False):
    """Kafka's own form of a request or an answer."""

    acks: Number
    isolationLevel: Number
    replicaId: Number
    replicaState: _Replica | None
    requireStable: bool
    memberId: str | None
    generationId: Number
    validateOnly: bool
    groups: list[_Named] | None
    topics: list[_Named] | None
    topicNames: list[str] | None
    responses: list[_Named] | None


_PLACES = msgspec.json.Decoder(list[_Place])
_BODY = msgspec.json.Decoder(_Body)


def places(text: str | None) -> list[Any]:
    """What a request or an answer says of partitions. Raises ValueError."""
    return _decoded(_PLACES, text) if text else []


def body(text: str | None) -> dict[str, Any]:
    """The fields of a request or an answer, by Kafka's names. Raises ValueError."""
    if not text:
        return {}
    fields: _Body = _decoded(_BODY, text)
    return {**fields}


def _decoded(decoder: msgspec.json.Decoder[T], text: str) -> T:
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"{error}, in {text[:100]!r}") from error
