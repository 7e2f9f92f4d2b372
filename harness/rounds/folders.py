"""The folders of rounds, `results/<campaign>/rounds/<time>/`: the only reader and writer of `round.json`.

A record may come from elsewhere, as those that are merged do: it has a bound, and a shape that is compared in depth.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import json_text, limited, make_folder, make_new_folder, names, remove_empty, write_text
from fencepost.harness.campaign.campaign import Campaign
from fencepost.harness.plugins.registry import unknown
from fencepost.harness.rounds.record import Round, VerdictExcerpt
from fencepost.harness.runs import store
from fencepost.harness.secrets import mask
from fencepost.harness.system import liveness

ROUNDS = "rounds"  # the folder of rounds in that of a campaign
MERGED = "-merged"  # behind the time of start, in the name of the folder of a round that is merged of its parts
RECORD, JUNIT, SUMMARY = "round.json", "junit.xml", "summary.md"
MOST_BYTES = 64 << 20  # of a record
ENDING_S = 5.0  # for what a harness that was killed has started
_TIME = r"\d{8}T\d{6}Z"
_STAMP = re.compile(rf"{_TIME}(-\d+of\d+|-merged)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a run's directory
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair, which no reader of JSON takes
_FORMAT = "%Y%m%dT%H%M%SZ"


def now() -> datetime:
    return datetime.now(timezone.utc)


def iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def start_of(stamp: str) -> datetime | None:
    """The time of start that a round is named by; None where it is none."""
    try:
        return datetime.strptime(stamp, _FORMAT).replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def new_round(root: Path, campaign: Campaign, stamp: str = "", **fields: Any) -> RoundRecord:
    """A new round of a campaign; its time of start is that of no other round there. Its folder is not made yet.

    stamp: the time of start that the parts of a round have in common. Raises CampaignError: it is none, or there is such a part.
    """
    folder, start = store.campaign_folder(root, campaign.name), now()
    taken = _folders(folder)
    while not stamp and any(name.startswith(start.strftime(_FORMAT)) for name in taken):
        start += timedelta(seconds=1)
    made = Round(
        round=stamp or start.strftime(_FORMAT),
        campaign=campaign.name,
        file=campaign.argument,
        path=str(campaign.path),
        seed=campaign.seed,
        sittings=(iso(now()),),
        fencepost=version("fencepost"),
        **fields,
    )
    shard = f"-{made.shard}of{made.shards}" if made.shards > 1 else ""
    if stamp and (not shard or not re.fullmatch(_TIME, stamp)):
        raise CampaignError([f"--round {stamp}: the parts of a round (--shard) have a time in common, such as 20261125T190000Z"])
    if f"{made.round}{shard}" in taken:
        raise CampaignError(
            [f"--round {stamp}: is there already: {folder / ROUNDS / (made.round + shard)}; --resume goes on with it"]
        )
    return RoundRecord(folder, f"{made.round}{shard}", made)


def rounds(folder: Path) -> list[str]:
    """The names of the rounds in a campaign's folder, the oldest first."""
    there = (name for name in _folders(folder) if _STAMP.fullmatch(name))
    return [name for name in there if os.path.lexists(folder / ROUNDS / name / RECORD)]


def _folders(folder: Path) -> list[str]:
    """The names in a campaign's folder of rounds; none where it cannot be read."""
    try:
        return names(folder, ROUNDS)
    except OSError:
        return []


def read_round(folder: Path) -> Round:
    """The round whose folder this is. Raises CampaignError: there is none that can be read."""
    try:
        read = msgspec.json.decode(limited(folder, RECORD, MOST_BYTES), type=Round)
        for attempt in (attempt for run in read.runs for attempt in run.attempts):
            msgspec.convert(attempt.verdict, VerdictExcerpt)
        return read
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CampaignError([f"{folder / RECORD}: cannot be read ({reason}); is this the folder of a round?"]) from error


def earlier_rounds(folder: Path, most: int) -> Iterator[Round]:
    """The rounds of a campaign's folder that can be read, the newest first."""
    for name in rounds(folder)[::-1][:most]:
        try:
            yield read_round(folder / ROUNDS / name)
        except CampaignError:
            continue


def find_round(folder: Path, text: str) -> str:
    """The name of the round that `text` means: its beginning, a path, or `latest`. Raises CampaignError: none, or several."""
    there = rounds(folder)
    if text == "latest" and there:
        return there[-1]
    wanted = Path(text).name if "/" in text else text
    matches = [name for name in there if name == wanted] or [name for name in there if wanted and name.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise CampaignError([f"--round {text}: may mean {len(matches)} rounds: {', '.join(matches)}"])
    if not there:
        raise CampaignError([f"no round: none of this campaign lies in {folder / ROUNDS}"])
    raise CampaignError([f"--round: {unknown('round', text, there[-20:])}"])


def is_plain_name(directory: str) -> bool:
    """True if this is the name of a directory, and no path that leads elsewhere."""
    return bool(_NAME.fullmatch(directory))


class RoundRecord:
    """A round and its folder.

    folder: of the campaign. name: of the round's folder in it. round: the round as it is by now.
    """

    def __init__(self, folder: Path, name: str, round: Round) -> None:
        self.folder, self.name, self.round = folder, name, round

    @property
    def directory(self) -> Path:
        return self.folder / ROUNDS / self.name

    def make(self) -> None:
        """Make its folder, and that of the campaign. Raises UnwritableFile."""
        store.campaign_folder(self.folder.parent, self.folder.name, make=True)
        make_folder(self.folder, f"{ROUNDS}/{self.name}")

    @contextmanager
    def reserved(self, suffix: str = "") -> Iterator[RoundRecord]:
        """This new round under a time of start that no other process takes: a second later for each one that has it already.

        suffix: of the folder that is made; MERGED where other processes perform its parts. A folder to which nothing was written
        is removed at the end. Raises UnwritableFile.
        """
        store.campaign_folder(self.folder.parent, self.folder.name, make=True)
        name, start = self.name, start_of(self.name)
        while not make_new_folder(self.folder, f"{ROUNDS}/{name}{suffix}") and start:
            start += timedelta(seconds=1)
            name = start.strftime(_FORMAT)
        try:
            yield RoundRecord(self.folder, name, replace(self.round, round=name))
        finally:
            for folder in (f"{ROUNDS}/{name}{suffix}", ROUNDS):
                remove_empty(self.folder, folder)
            remove_empty(self.folder.parent, self.folder.name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The round for this process alone. Raises CampaignError: another one performs it."""
        deadline = time.monotonic() + ENDING_S
        while True:
            with liveness.exclusive(self.directory) as holder:
                if not holder or "cannot be locked" in holder:
                    yield
                    return
            if time.monotonic() > deadline:
                raise CampaignError([f"{self.directory}: this round is being performed by {holder}: wait for its end"])
            time.sleep(0.1)

    def change(self, changed: Round) -> None:
        """Write a changed round. Raises UnwritableFile; the change holds all the same."""
        self.round = changed
        text = _HALF.sub(lambda half: f"\\\\u{ord(half[0]):04x}", json_text(msgspec.to_builtins(changed)))
        write_text(self.directory, RECORD, mask(text), synced=True)


def relative(path: Path, start: Path) -> str:
    """A path as seen from a folder, with `/`."""
    return Path(os.path.relpath(path, start)).as_posix()
