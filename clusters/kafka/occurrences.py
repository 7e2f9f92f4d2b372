"""What a held message waits for may pass another proxy than its own: each is told what the others have seen.

A proxy releases at once what it holds itself. For the others a thread for each proxy waits for what that one has seen, and tells
it: as the harness's own requests do not pass the links that faults cut, neither does this.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.proxy.control import Control

SHARED = ("next:", "answered:")
IDS = "ids"  # not waited for: the states of transactional ids, for rules that ask for them
log = structlog.get_logger()


class Occurrences:
    """Tells the other proxies what each has seen of `next:API` or `answered:API`, or knows of `ids`, until `close`.

    Does nothing for one proxy.
    """

    def __init__(self, until: str, controls: Iterable[Control]) -> None:
        self._until, self._controls = until, list(controls)
        self._watches: list[tuple[Control, int]] = []
        self._closed = threading.Event()
        for control in self._controls if len(self._controls) > 1 else ():
            with suppress(ClusterError):  # it has ended
                self._watches.append((control, control.watch(until)))
        for watch in self._watches:
            threading.Thread(target=self._listen, args=watch, daemon=True, name=f"watch {until}").start()

    def close(self) -> None:
        """Tell nothing more."""
        self._closed.set()
        for control, number in self._watches:
            with suppress(ClusterError, CampaignError):
                control.unwatch(number)

    def _listen(self, control: Control, number: int) -> None:
        known = 0
        while not self._closed.is_set():
            try:
                known, seen = control.seen(number, known)
            except (ClusterError, CampaignError):  # it has ended, or the watch has
                return
            for other in self._controls if seen else ():
                if other is not control:
                    self._tell(other, seen)

    def _tell(self, control: Control, seen: Sequence[Mapping[str, Any]]) -> None:
        try:
            control.occurred(seen)
        except ClusterError as error:
            log.debug("proxy not told", until=self._until, why=str(error))
