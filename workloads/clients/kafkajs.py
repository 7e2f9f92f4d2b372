"""The family `kafkajs`: kafkajs of npm."""

from __future__ import annotations

from typing import ClassVar

from fencepost.workloads.clients.node import NodeFamily


class Kafkajs(NodeFamily):
    """kafkajs, unmaintained since 2023 and widely used.

    After a failed call (`client.recovery`): an abort, by docs/Transactions.md.
    """

    default: ClassVar[str] = "2.2.4"
    versions: ClassVar[str] = "2.0.0 to 2.2.4; older ones from 1.8 have transactions too"
    package: ClassVar[str] = "kafkajs"
    program: ClassVar[str] = "kafkajs.js"
