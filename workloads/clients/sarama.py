"""The family of sarama (github.com/IBM/sarama): its asynchronous producer and its consumers of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from fencepost.workloads.clients.golang import GoFamily


class Sarama(GoFamily):
    """sarama at any version from 1.40 on, the first under IBM's name. It speaks the first transaction protocol.

    After a failed call (`client.recovery`): commit or abort again, until TxnStatus says otherwise, by its examples.
    """

    default: ClassVar[str] = "1.61.1"
    versions: ClassVar[str] = "1.40.0 and newer, as released (for example 1.61.1)"
    name: ClassVar[str] = "sarama"
    module: ClassVar[str] = "github.com/IBM/sarama"
    packages: ClassVar[tuple[str, ...]] = ("",)
    oldest: ClassVar[tuple[int, int, int]] = (1, 40, 0)
    why_oldest: ClassVar[str] = "the module had another name before"

    def tags(self, library: Path) -> Sequence[str]:
        return []
