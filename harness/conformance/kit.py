"""The kit from options to results: it inspects the faults, starts a cluster, plays the stories, and kills the harness."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.harness.api import (
    CampaignError,
    ChangesTopicSettings,
    ClusterError,
    Fault,
    HarnessError,
    Leases,
    Obtains,
    Scalable,
)
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.files import last_words
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.api.words import unknown_word
from fencepost.harness.conformance.results import STORIES, StoryResult, unplayed
from fencepost.harness.history.run_directory import write_plan
from fencepost.harness.planning.plan import make_plan
from fencepost.harness.plugins import fault_validation, registry, validation
from fencepost.harness.plugins.fault_validation import refused_topic_settings
from fencepost.harness.runs import leftovers
from fencepost.harness.system import lifeline
from fencepost.harness.system.python_command import module_command
from fencepost.harness.system.whole_lines import whole_lines

Event = Mapping[str, Any]
LOG = "logs/kit.log"  # where all logs are, so that secrets are taken out of it too
GONE_S, END_S = 30.0, 30.0
SMALL: dict[str, Any] = {"brokers": 3, "heap_mb": 256}  # where the provider has such options and nobody gave others
WORKLOAD = Choice(kind="transactions", options={"writers": 1, "readers": 1, "uncommitted_readers": 0, "partitions": 3})
MEMBERS = Choice(kind="pipeline", options={"members": 3, "writers": 1, "readers": 1})  # for faults that change how many there are
PLAYED = tuple(STORIES)[2:]
NONSENSE: dict[str, Any] = {"target": "nobody-of-this-name", "count": 0}


@dataclass(frozen=True)
class FaultResult:
    """The results of one fault's stories.

    stories: in their order.
    version: Kafka's; empty when no cluster was started.
    """

    kind: str
    stories: list[StoryResult] = field(default_factory=list)
    version: str = ""


class ConformanceCheck:
    """Checks some faults on one cluster.

    faults: kinds with options.
    on_event: takes events as they come (`phase`, `story`).
    stories: those that are wanted; by default all.

    Raises CampaignError, with every mistake, when a fault, the cluster or a story cannot be used: nothing was started then.
    """

    def __init__(
        self,
        faults: Sequence[Choice],
        cluster: Choice,
        seed: int,
        on_event: Callable[[Event], None],
        stories: Collection[str] = (),
    ) -> None:
        self._on_event, self._seed = on_event, seed
        self._wanted = tuple(story for story in STORIES if not stories or story in stories)
        mistakes = [unknown_word("story", story, [*STORIES]) for story in stories if story not in STORIES]
        self._faults = {_name(choice): (choice, _made("nemesis", choice, mistakes)) for choice in faults}
        self._provider = _made("cluster", cluster, mistakes)
        if not mistakes:
            mistakes += _refused_settings([fault for _, fault in self._faults.values()], self._provider)
        if mistakes:
            raise CampaignError(mistakes)
        self._cluster = Choice(kind=cluster.kind, options={**_small(self._provider), **cluster.options})

    def run(self) -> list[FaultResult]:
        """Every fault's stories. Raises ClusterError when the cluster did not start."""
        results = {result.kind: result for result in self.at_rest()}
        if not self._on_cluster:
            return list(results.values())
        lacking = self._provider.missing()
        reasons = {name: fault_validation.unavailable([fault], lacking.get) for name, (_, fault) in self._faults.items()}
        for name in (name for name, why in reasons.items() if why):
            results[name].stories.extend(
                unplayed(self._on_cluster, f"unavailable here, because {'; '.join(reasons[name].values())}")
            )
        if playable := [name for name, why in reasons.items() if not why]:
            with log_directory("nemesis", lambda: _broken(results[name] for name in playable)) as run_dir:
                version = self._play(playable, run_dir, results)
            results.update({name: FaultResult(name, results[name].stories, version) for name in playable})
            if run_dir.exists():
                self._on_event({"event": "phase", "text": f"logs of the brokers and of the kit: {run_dir}"})
        return list(results.values())

    def at_rest(self) -> list[FaultResult]:
        """The stories that need no cluster."""
        return [FaultResult(name, self._wanted_of(_at_rest(choice, fault))) for name, (choice, fault) in self._faults.items()]

    @property
    def _on_cluster(self) -> tuple[str, ...]:
        return tuple(story for story in PLAYED if story in self._wanted)

    def _wanted_of(self, results: Sequence[StoryResult]) -> list[StoryResult]:
        """Those that are wanted; and what failed, for it may be why others were not played."""
        return [result for result in results if result.story in self._wanted or (result.ok is False and result.story in PLAYED)]

    def _play(self, names: Sequence[str], run_dir: Path, results: Mapping[str, FaultResult]) -> str:
        self._write_plan(names, run_dir)
        version, held = "", []
        with _harness(run_dir) as harness:
            for event in events_of(harness, run_dir):
                if event["event"] == "story":
                    results[event["kind"]].stories.append(StoryResult(**event["result"]))
                elif event["event"] == "held":
                    held.append(event["kind"])
                elif event["event"] == "up":
                    version = event["version"]
                self._on_event(event)
                if event["event"] == "holding":
                    break
            died = self._kill_harness(harness, run_dir, held) if held else None
        for name in names:
            missing = missing_stories(results[name].stories, died if name in held else None)
            results[name].stories.extend(self._wanted_of(missing))
        return str(version)

    def _write_plan(self, names: Sequence[str], run_dir: Path) -> None:
        scalable = any(Scalable in self._faults[name][1].needs for name in names)
        test = Test(name="nemesis-check", cluster=self._cluster, workload=MEMBERS if scalable else WORKLOAD)
        plan = make_plan(test, run=secrets.token_hex(3), seed=self._seed, command="fencepost nemesis check")
        choices = [{"name": name, "kind": self._faults[name][0].kind, "options": self._faults[name][0].options} for name in names]
        wanted = {"faults": choices, "seed": self._seed, "stories": list(self._on_cluster)}
        write_plan(run_dir, {**plan, "conformance": wanted})

    def _kill_harness(self, harness: subprocess.Popen[bytes], run_dir: Path, held: Sequence[str]) -> StoryResult:
        """Kill the harness while the faults are on, and look for what stays."""
        self._on_event({"event": "phase", "text": f"killing the harness while {', '.join(held)} is on"})
        harness.kill()
        harness.wait()
        lease_s = self._provider.lease_s if isinstance(self._provider, Leases) else 0.0
        within_s = GONE_S + lease_s  # hosts that we only reach by wire have leases
        began = time.monotonic()
        while (left := leftovers_of(run_dir)) and time.monotonic() - began < within_s:
            time.sleep(0.1)
        if left:
            change = "start nothing that outlives the sandbox; what is hurt outside it needs a lease that undoes it"
            return StoryResult(_DIED, False, f"{within_s:g} s after kill -9 there still is: {'; '.join(left)}", change)
        return StoryResult(_DIED, True, f"nothing left {time.monotonic() - began:.1f} s after kill -9, with {', '.join(held)} on")


_DIED = tuple(STORIES)[-1]


def missing_stories(results: Sequence[StoryResult], died: StoryResult | None) -> list[StoryResult]:
    """Results of the stories that are still open when the kit has ended. died: that of the story `harness died`."""
    lost = [story for story in PLAYED[:-1] if story not in [result.story for result in results]]
    last = died or StoryResult(_DIED, None, "not played: the fault was not on when the harness could have been killed")
    return [*unplayed(lost, "not played: a fault before this one left no cluster to play on"), last]


def leftovers_of(run_dir: Path) -> list[str]:
    """Leftovers of a run on this machine: processes that name its directory, and containers and networks with its label."""
    mine = [
        process.command[:100]
        for process in leftovers.processes()
        if str(run_dir) in process.command and process.pid != os.getpid()
    ]
    in_docker: list[str] = []
    with suppress(ClusterError):  # no daemon answers: then no cluster of ours is in Docker
        in_docker = [str(left) for left in leftovers.in_docker() if run_dir.name in str(left)]
    return mine + in_docker


def _name(choice: Choice) -> str:
    """A fault as it was asked for: `kill`, or `kill,target=leader`."""
    return ",".join([choice.kind, *(f"{key}={value}" for key, value in choice.options.items())])


def _made(group: str, choice: Choice, mistakes: list[str]) -> Any:
    """A plug-in with its options; None, and every mistake, when it cannot be used."""
    try:
        cls = registry.load(group, choice.kind)
        if broken := validation.breaches(group, cls):
            raise CampaignError([f"{group} {choice.kind}: {text}" for text in broken])
        return registry.build(cls, choice.options, f"{group} {choice.kind}")
    except CampaignError as error:
        mistakes += error.mistakes
        return None


def _refused_settings(faults: Sequence[Fault], provider: Any) -> list[str]:
    """The topic settings of faults that Kafka refuses, as mistakes. Fetches Kafka first, whose definitions judge them."""
    changing = [fault for fault in faults if isinstance(fault, ChangesTopicSettings)]
    if changing and isinstance(provider, Obtains):
        provider.obtain(lambda _: None)
    return [f"settings.{name}: {text}" for fault in changing for name, text in refused_topic_settings(fault, provider)]


def _small(provider: Any) -> dict[str, Any]:
    known = {option.name for option in registry.option_fields(type(provider))}
    return {name: value for name, value in SMALL.items() if name in known}


def _at_rest(choice: Choice, fault: Fault) -> list[StoryResult]:
    needs = ", ".join(need.__name__ for need in fault.needs) or "nothing"
    return [StoryResult("interface", True, f"{type(fault).__name__} needs {needs}"), _options(choice, type(fault))]


def _options(choice: Choice, cls: type) -> StoryResult:
    fields = {option.name for option in registry.option_fields(cls)}
    tried = {key: value for key, value in NONSENSE.items() if key in fields}
    taken = [f"{key} = {value!r}" for key, value in tried.items() if not registry.attempt(cls, {**choice.options, key: value})[1]]
    if taken:
        change = "raise ValueError in __post_init__ for what cannot be meant (fencepost.nemesis.support.targets.check for roles)"
        return StoryResult("options", False, f"{', '.join(taken)} was taken", change)
    refused = ", ".join(f"{key} = {value!r}" for key, value in tried.items())
    return StoryResult("options", True, f"{refused or 'an unknown option'} is refused")


def _broken(checked: Iterable[FaultResult]) -> bool:
    """True when a story failed, or the cluster did not start."""
    failed = any(story.ok is False for result in checked for story in result.stories)
    return failed or isinstance(sys.exc_info()[1], HarnessError)


@contextmanager
def log_directory(kind: str, is_of_use: Callable[[], bool]) -> Iterator[Path]:
    """A directory for the cluster's logs, removed at the end unless they are of use. The brokers' data goes in any case."""
    place = Path(tempfile.mkdtemp(prefix=f"fencepost-{kind}-"))
    try:
        yield place
    finally:
        shutil.rmtree(place / "data", ignore_errors=True)
        if not is_of_use():
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _harness(run_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A harness in a process of its own; it and all in its sandbox end with the block, by the end of its lifeline."""
    argv = module_command("fencepost.harness.conformance.harness_side", str(run_dir))
    with log_file(run_dir, LOG) as log:
        harness = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    try:
        yield harness
    finally:
        lifeline.cut(harness, END_S)


def events_of(harness: subprocess.Popen[bytes], run_dir: Path) -> Iterator[dict[str, Any]]:
    """Events of the sandbox side. Raises ClusterError for its `failed` event, HarnessError when it ends without one."""
    assert harness.stdout is not None
    for line in whole_lines(harness.stdout):
        event = json.loads(line)
        if event["event"] == "failed":
            raise ClusterError(f"{event['text']} (logs: {run_dir})")
        yield event
    if code := harness.wait():
        raise HarnessError(f"the kit ended early (exit {code}); last words in {run_dir / LOG}: {last_words(run_dir / LOG)}")
