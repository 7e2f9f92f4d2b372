"""Several tests of a campaign at once: each part of the runs (`--shard`) in a process of its own, and their rounds merged.

A process has a cluster, a Spark and a screen of its own; its lines come with the number of its part before them. Ctrl-C and the
signals that end the process go to all parts, each of which does what it does alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import Exit, MachineError
from fencepost.harness.api.words import plural
from fencepost.harness.cli.console import err
from fencepost.harness.cli.round_output import leave
from fencepost.harness.system import ending_signals
from fencepost.harness.system.memory import available_memory
from fencepost.harness.system.parent_death import die_with
from fencepost.harness.system.python_command import module_command

if TYPE_CHECKING:
    from fencepost.harness.campaign.campaign import Campaign
    from fencepost.harness.rounds.record import Round

PER_JOB = 4 << 30  # bytes of memory: three brokers, their clients, Spark


def demand_room(jobs: int) -> None:
    """Raises MachineError when this machine has too few cores or too little memory for so many tests at once."""
    cores, memory = len(os.sched_getaffinity(0)), available_memory()
    if cores < jobs:
        raise MachineError(f"--jobs {jobs}: this process may use {plural(cores, 'core')}; a test needs one of its own")
    if memory < jobs * PER_JOB:
        room = f"{memory / (1 << 30):.1f} GiB of memory are free, and {jobs * PER_JOB >> 30} GiB needed"
        raise MachineError(f"--jobs {jobs}: {room}")


def perform_jobs(words: Sequence[str], jobs: int, root: Path, as_json: bool, on_red: str, junit: Path | None) -> NoReturn:
    """Perform a campaign in so many parts at once, print the outcome of all, and leave with its exit code.

    words: of `fencepost campaign`, all parts alike.
    """
    from fencepost.harness.rounds.merging import merge_rounds

    parts = [Part.start(number, [*words, "--shard", f"{number}/{jobs}"]) for number in range(1, jobs + 1)]
    with _signals_for(parts):
        documents = [part.document() for part in parts]
    for document in documents:
        for text in document.get("mistakes") or document.get("errors") or ():
            err().print(str(text), soft_wrap=True)
    rounds = [Path(document["directory"]) for document in documents if document.get("directory")]
    if not rounds:
        raise typer.Exit(max((part.code for part in parts), default=int(Exit.HARNESS_BROKE)))
    leave(merge_rounds(root, rounds), as_json, on_red, junit)


def command(words: Sequence[str]) -> list[str]:
    """The command line of a part."""
    return module_command("fencepost.harness.cli.main", *words)


@dataclass
class Part:
    """A part of a campaign, performed by a process of its own.

    number: its number. process: the process, whose standard output is one JSON document. shown: shows its other lines.
    """

    number: int
    process: subprocess.Popen[str]
    shown: threading.Thread

    @classmethod
    def start(cls, number: int, words: Sequence[str]) -> Part:
        process = subprocess.Popen(
            command([*words, "--json", "--on-red", ""]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={name: value for name, value in os.environ.items() if name not in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")},
            start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on
            preexec_fn=die_with(os.getpid()),
        )
        shown = threading.Thread(target=cls._show, args=(number, process), daemon=True)
        shown.start()
        return cls(number, process, shown)

    @staticmethod
    def _show(number: int, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            err().print(f"{number}: {line.rstrip()}", soft_wrap=True)

    @property
    def code(self) -> int:
        """The exit code; that of a harness that broke when a signal ended it."""
        return self.process.returncode if self.process.returncode >= 0 else int(Exit.HARNESS_BROKE)

    def document(self) -> dict[str, Any]:
        """What the process printed, when it has ended: the round, or what was wrong; empty when it was killed."""
        assert self.process.stdout is not None
        text = self.process.stdout.read()
        self.process.wait()
        self.shown.join()
        with suppress(ValueError):
            document = json.loads(text)
            if isinstance(document, dict):
                return document
        err().print(f"{self.number}: ended with {self.process.returncode}, and says nothing of its round", soft_wrap=True)
        return {}


@contextmanager
def _signals_for(parts: Sequence[Part]) -> Iterator[None]:
    """Within the block the signals that mean a stop go to all parts."""

    def forward(number: int, frame: FrameType | None) -> None:
        for part in parts:
            with suppress(ProcessLookupError):
                part.process.send_signal(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)

    before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {
        number: signal.signal(number, forward) for number in (signal.SIGINT, *ending_signals.heeded())
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def common_seed(round: Round, campaign: Campaign) -> list[str]:
    """Words that give all parts the seed of a round. Raises CampaignError where that would change the seeds of tests."""
    if not round.choices.seed_given and round.seed == campaign.file.seed:
        return []
    if not round.choices.seed_given and any(test.seed is not None for test in campaign.tests):
        raise CampaignError(["--jobs: the parts would draw different seeds; give one (--seed, or seed in the file)"])
    return ["--seed", str(round.seed)]
