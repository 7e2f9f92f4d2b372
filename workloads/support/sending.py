"""Sending, for every workload: the `send` micro-operation and its delivery report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.harness.api import CallError, Client, Delivered, Operation, Outgoing
from fencepost.workloads.support import record_format
from fencepost.workloads.support.polling import note


class Content(NamedTuple):
    """The content of a record."""

    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


def content_of(op: Operation, seq: int, run: str, size: int) -> Content:
    """The record of micro-operation `seq`, of about `size` bytes."""
    value = record_format.encode(run, op.process, op.number, seq, op.value[seq][1], op.planned.intent, size)
    return Content(f"{op.process}/{op.number}".encode(), value)


def send(op: Operation, seq: int, client: Client, run: str, size: int) -> None:
    """Hand over the record of micro-operation `seq`, as `content_of` makes it. Raises CallError."""
    hand_over(op, seq, client, content_of(op, seq, run, size))


def hand_over(op: Operation, seq: int, client: Client, content: Content) -> None:
    """Hand over a record of micro-operation `seq`; its delivery fills in offset and time. Raises CallError.

    A record that was refused or not delivered keeps null for both; its error is recorded with the operation.
    """
    partition = op.value[seq][1]
    done: list[Any] = [*op.value[seq][:3], None, time.monotonic_ns(), None]
    op.value[seq] = done

    def delivered(result: Delivered | CallError) -> None:
        if isinstance(result, Delivered):
            done[3], done[5] = result.offset, time.monotonic_ns()
        else:
            note(op, result)

    topic, _, number = partition.rpartition("-")
    client.send(Outgoing(topic=topic, partition=int(number), **content._asdict()), delivered)
