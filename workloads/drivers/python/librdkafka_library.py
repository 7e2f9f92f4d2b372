"""librdkafka's C interface by ctypes, as far as the driver needs it: what every release from 1.4 on has, and what came later."""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    create_string_buffer,
)
from pathlib import Path
from typing import Any, Iterable, Iterator

PRODUCER, CONSUMER = 0, 1
UNKNOWN_SETTING = -2
PARTITION_ANY = -1
OFFSETS = {"start": -2, "end": -1}
NO_CONSUMER_CLOSE = 0x8
PURGE = 0x1 | 0x2 | 0x4  # what is queued, what is in flight, without waiting
COPY = 0x2  # the library copies key and value
_TEXT = 512
_END, _TOPIC, _PARTITION, _VALUE, _KEY, _OPAQUE, _FLAGS, _HEADER = 0, 1, 3, 4, 5, 6, 7, 9  # rd_kafka_vtype_t

# Errors by number (rd_kafka_resp_err_t).
FATAL, STATE, INVALID_ARG, TIMED_OUT, QUEUE_FULL, PARTITION_EOF = -150, -172, -186, -185, -184, -191
ASSIGN_PARTITIONS, REVOKE_PARTITIONS = -175, -174


class Message(Structure):
    """rd_kafka_message_t."""

    _fields_ = [
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("length", c_size_t),
        ("key", c_void_p),
        ("key_length", c_size_t),
        ("offset", c_int64),
        ("opaque", c_void_p),
    ]


class Place(Structure):
    """rd_kafka_topic_partition_t."""

    _fields_ = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("error", c_int),
        ("private", c_void_p),
    ]


class Places(Structure):
    """rd_kafka_topic_partition_list_t."""

    _fields_ = [("count", c_int), ("size", c_int), ("elements", POINTER(Place))]


DeliveryReport = CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)
Rebalance = CFUNCTYPE(None, c_void_p, c_int, POINTER(Places), c_void_p)

_INT, _TEXT_RESULT, _NOTHING, _POINTER = c_int, c_char_p, None, c_void_p
_PLACES, _MESSAGE = POINTER(Places), POINTER(Message)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "version_str": (_TEXT_RESULT, []),
    "err2name": (_TEXT_RESULT, [c_int]),
    "err2str": (_TEXT_RESULT, [c_int]),
    "last_error": (_INT, []),
    "fatal_error": (_INT, [c_void_p, c_char_p, c_size_t]),
    "error_code": (_INT, [c_void_p]),
    "error_string": (_TEXT_RESULT, [c_void_p]),
    "error_is_fatal": (_INT, [c_void_p]),
    "error_is_retriable": (_INT, [c_void_p]),
    "error_txn_requires_abort": (_INT, [c_void_p]),
    "error_destroy": (_NOTHING, [c_void_p]),
    "conf_new": (_POINTER, []),
    "conf_set": (_INT, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "conf_destroy": (_NOTHING, [c_void_p]),
    "conf_set_dr_msg_cb": (_NOTHING, [c_void_p, DeliveryReport]),
    "conf_set_rebalance_cb": (_NOTHING, [c_void_p, Rebalance]),
    "new": (_POINTER, [c_int, c_void_p, c_char_p, c_size_t]),
    "destroy": (_NOTHING, [c_void_p]),
    "destroy_flags": (_NOTHING, [c_void_p, c_int]),
    "poll": (_INT, [c_void_p, c_int]),
    "outq_len": (_INT, [c_void_p]),
    "purge": (_INT, [c_void_p, c_int]),
    "init_transactions": (_POINTER, [c_void_p, c_int]),
    "begin_transaction": (_POINTER, [c_void_p]),
    "commit_transaction": (_POINTER, [c_void_p, c_int]),
    "abort_transaction": (_POINTER, [c_void_p, c_int]),
    "send_offsets_to_transaction": (_POINTER, [c_void_p, _PLACES, c_void_p, c_int]),
    "consumer_group_metadata": (_POINTER, [c_void_p]),
    "consumer_group_metadata_write": (_POINTER, [c_void_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "consumer_group_metadata_read": (_POINTER, [POINTER(c_void_p), c_char_p, c_size_t]),
    "consumer_group_metadata_destroy": (_NOTHING, [c_void_p]),
    "mem_free": (_NOTHING, [c_void_p, c_void_p]),
    "topic_partition_list_new": (_PLACES, [c_int]),
    "topic_partition_list_add": (POINTER(Place), [_PLACES, c_char_p, c_int32]),
    "topic_partition_list_destroy": (_NOTHING, [_PLACES]),
    "assign": (_INT, [c_void_p, _PLACES]),
    "subscribe": (_INT, [c_void_p, _PLACES]),
    "position": (_INT, [c_void_p, _PLACES]),
    "committed": (_INT, [c_void_p, _PLACES, c_int]),
    "topic_new": (_POINTER, [c_void_p, c_char_p, c_void_p]),
    "topic_destroy": (_NOTHING, [c_void_p]),
    "topic_name": (_TEXT_RESULT, [c_void_p]),
    "seek": (_INT, [c_void_p, c_int32, c_int64, c_int]),
    "commit": (_INT, [c_void_p, c_void_p, c_int]),
    "poll_set_consumer": (_INT, [c_void_p]),
    "queue_get_consumer": (_POINTER, [c_void_p]),
    "queue_destroy": (_NOTHING, [c_void_p]),
    "consumer_poll": (_MESSAGE, [c_void_p, c_int]),
    "consume_batch_queue": (c_int64, [c_void_p, c_int, POINTER(_MESSAGE), c_size_t]),
    "consumer_close": (_INT, [c_void_p]),
    "message_destroy": (_NOTHING, [_MESSAGE]),
    "message_timestamp": (c_int64, [_MESSAGE, POINTER(c_int)]),
    "message_headers": (_INT, [_MESSAGE, POINTER(c_void_p)]),
    "header_get_all": (_INT, [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_void_p), POINTER(c_size_t)]),
}
_LATER: dict[str, tuple[Any, list[Any]]] = {  # since 1.6
    "rebalance_protocol": (_TEXT_RESULT, [c_void_p]),
    "assignment_lost": (_INT, [c_void_p]),
    "incremental_assign": (_POINTER, [c_void_p, _PLACES]),
    "incremental_unassign": (_POINTER, [c_void_p, _PLACES]),
}


class Library:
    """A loaded librdkafka: its functions by name, without `rd_kafka_`; those that this release lacks are None."""

    def __init__(self, path: Path) -> None:
        self._loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in {**_SIGNATURES, **_LATER}.items():
            function = getattr(self._loaded, f"rd_kafka_{name}", None)
            if function is None and name in _SIGNATURES:
                raise OSError(f"{path} has no rd_kafka_{name}: transactions came with librdkafka 1.4")
            if function is not None:
                function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self._producev = self._loaded.rd_kafka_producev
        self._producev.restype = c_int

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"rd_kafka_{name} is not declared")

    def conf(self, settings: Iterable[tuple[str, str]]) -> tuple[Any, list[tuple[str, str]]]:
        """A configuration of these settings, and what librdkafka refused of them: pairs of a key and its words."""
        conf, refused, text = self.conf_new(), [], create_string_buffer(_TEXT)
        for key, value in settings:
            if self.conf_set(conf, key.encode(), value.encode(), text, _TEXT) != 0:
                refused.append((key, text.value.decode("utf-8", "replace")))
        return conf, refused

    def client(self, kind: int, conf: Any) -> tuple[Any, str]:
        """A client of the configuration, which belongs to it from then on; or None and librdkafka's words."""
        text = create_string_buffer(_TEXT)
        handle = self.new(kind, conf, text, _TEXT)
        if not handle:
            self.conf_destroy(conf)
        return handle, text.value.decode("utf-8", "replace")

    def produce(
        self, handle: Any, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Any, opaque: int
    ) -> int:
        """rd_kafka_producev, which copies key and value; the number of its error, 0 for none."""
        arguments: list[Any] = [c_int(_TOPIC), c_char_p(topic.encode()), c_int(_PARTITION), c_int32(partition)]
        arguments += [c_int(_FLAGS), c_int(COPY), c_int(_OPAQUE), c_void_p(opaque)]
        arguments += [c_int(_VALUE), c_char_p(value), c_size_t(len(value or b""))]
        arguments += [c_int(_KEY), c_char_p(key), c_size_t(len(key or b""))]
        for name, text in headers:
            arguments += [c_int(_HEADER), c_char_p(name.encode()), c_char_p(text), c_size_t(len(text or b""))]
        return self._producev(c_void_p(handle), *arguments, c_int(_END))

    def places(self, offsets: Iterable[tuple[str, int, int]]) -> Any:
        """A list of topic, partition and offset; the caller destroys it."""
        made = self.topic_partition_list_new(8)
        for topic, number, offset in offsets:
            self.topic_partition_list_add(made, topic.encode(), number).contents.offset = offset
        return made

    def headers(self, message: Any) -> Iterator[tuple[str, bytes | None]]:
        """The headers of a received message."""
        headers, name, value, length = c_void_p(), c_char_p(), c_void_p(), c_size_t()
        if self.message_headers(message, headers) != 0:
            return
        index = 0
        while self.header_get_all(headers, index, name, value, length) == 0:
            yield (name.value or b"").decode("utf-8", "replace"), data(value.value, length.value)
            index += 1

    def fatal(self, handle: Any) -> tuple[int, str]:
        """The fatal error of a client, 0 for none."""
        text = create_string_buffer(_TEXT)
        return self.fatal_error(handle, text, _TEXT), text.value.decode("utf-8", "replace")


def data(address: int | None, length: int) -> bytes | None:
    """The bytes at an address, None where it is null."""
    return None if address is None else ctypes.string_at(address, length)
