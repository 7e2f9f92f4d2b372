"""Kafka's messages of any version as mappings, by the kafka-clients of a release of Kafka: its own schemas, its own JSON of them.

A Java program (`messages/Messages.java`) answers one question per line. It knows no message itself: the names of fields are those
of Kafka's message definitions in lower camel case (`producerEpoch`).
"""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from fencepost.clusters.kafka.distribution import Distribution
from fencepost.harness.api import ClusterError

JAR = Path(__file__).with_name("messages.jar")
_MAIN, _HEAP_MB, _END_S = "fencepost.Messages", 96, 5.0


class UnknownMessage(ClusterError):
    """The release of Kafka whose schemas are used has no such version of a message, or no such field in it."""


class Encoded(NamedTuple):
    """A request as bytes.

    flexible: it has a header with tagged fields (KIP-482).
    plain_reply: the header of its response has none all the same.
    """

    body: bytes
    flexible: bool
    plain_reply: bool


class Messages:
    """The program, as long as the `with` block lasts. log: takes what the Java virtual machine says."""

    def __init__(self, release: Distribution, log: IO[bytes]) -> None:
        self.release = release.version
        java, *command = release.command(_MAIN, (), _HEAP_MB)
        path = command.index("-cp") + 1
        command[path] = f"{JAR}:{command[path]}"
        self._command, self._log = [java, *(flag for flag in command if not flag.startswith("-XX:SharedArchiveFile"))], log

    def __enter__(self) -> Messages:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def request(self, api: int, version: int, fields: Mapping[str, Any]) -> Encoded:
        """A request; fields that are not given have the defaults of its definition. Raises UnknownMessage."""
        answer = self._ask({"api": api, "version": version, "request": fields})
        return Encoded(b64decode(answer["bytes"]), answer["flexible"], answer["plainReply"])

    def response(self, api: int, version: int, content: bytes) -> dict[str, Any]:
        """The fields of a response without its header. Raises UnknownMessage."""
        answer = self._ask({"api": api, "version": version, "response": b64encode(content).decode()})
        fields: dict[str, Any] = answer["response"]
        return fields

    def error(self, code: int) -> str:
        """The name of an error code: `NONE`, `INVALID_TXN_STATE`."""
        return str(self._ask({"code": code})["name"])

    def batch(self, producer_id: int, epoch: int, sequence: int, value: str) -> str:
        """A transactional batch of one record, as the `records` of a Produce request."""
        return str(self._ask({"producerId": producer_id, "epoch": epoch, "sequence": sequence, "value": value})["bytes"])

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = b""
        if not line:
            raise ClusterError(f"the program that encodes Kafka's messages has ended ({' '.join(self._command[:1])}, {JAR.name})")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UnknownMessage(f"Kafka {self.release}: {answer['error']}")
        return answer
