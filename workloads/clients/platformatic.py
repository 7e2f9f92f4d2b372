"""The family `platformatic`: @platformatic/kafka of npm."""

from __future__ import annotations

from typing import ClassVar

from fencepost.workloads.clients.node import NodeFamily


class Platformatic(NodeFamily):
    """@platformatic/kafka. From 2.0 on it needs Node.js 22.22 or newer, which is fetched where the machine's is older.

    After a failed call (`client.recovery`): an abort, by docs/transactions.md.
    """

    default: ClassVar[str] = "2.12.1"
    versions: ClassVar[str] = "1.11.0 to 2.12.1, such as 1.27.0, 2.2.3 and 2.11.0"
    package: ClassVar[str] = "@platformatic/kafka"
    program: ClassVar[str] = "platformatic.js"
    companions: ClassVar[tuple[str, ...]] = ("avsc@^5.7.9",)  # 1.x imports it, and lists it for its developers only
