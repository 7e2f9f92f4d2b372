"""The family of franz-go (github.com/twmb/franz-go): its kgo client in Go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from fencepost.workloads.clients.golang import GoFamily


class FranzGo(GoFamily):
    """franz-go at any version from 1.16 on. From 1.19.3 on it speaks the second transaction protocol (KIP-890).

    After a failed call (`client.recovery`): an abort ends a refused or unconfirmed commit, by EndTransaction's documentation.
    """

    default: ClassVar[str] = "1.22.3"
    versions: ClassVar[str] = "1.16.0 and newer, as released (for example 1.22.3)"
    name: ClassVar[str] = "franz-go"
    module: ClassVar[str] = "github.com/twmb/franz-go"
    packages: ClassVar[tuple[str, ...]] = ("pkg/kgo", "pkg/kerr", "pkg/sasl/plain", "pkg/sasl/scram")
    oldest: ClassVar[tuple[int, int, int]] = (1, 16, 0)
    why_oldest: ClassVar[str] = "the driver uses calls of kgo that came later"

    def tags(self, library: Path) -> Sequence[str]:
        config = library / "vendor" / self.module / "pkg" / "kgo" / "config.go"
        return ["cancellation"] if "func AllowIdempotentProduceCancellation(" in config.read_text() else []
