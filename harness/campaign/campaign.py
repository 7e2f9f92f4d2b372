"""TOML -> tests. A campaign with one mistake starts nothing; all its mistakes are reported at once.

`[defaults]` lie beneath every `[[test]]`: tables merge deeply, lists and values are replaced. `[test.matrix]` makes a
test of every combination. A test that is repeated runs with the seeds s, s+1, s+2, ...
"""

from __future__ import annotations

import itertools
import json
import secrets
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from harness.api import CampaignError, Test
from harness.api.plans import Key, Tables
from harness.campaign.test import KeyReader, read_test
from harness.campaign.toml import Keys, at_point, flat_settings, merged, name_in_file, read_toml
from harness.plugins.registry import make_importable, unknown

MATRIX = """\
A table of lists. The test is performed once for every combination of their values, each with a name of its own
(`steady[3.9.1,target=leader]`). A key is the path of what varies: `"cluster.kafka"`, `"nemesis[0].target"`, or `"nemesis"` for
all faults together."""


@dataclass(frozen=True, kw_only=True)
class CampaignFile:
    """The keys of a campaign file itself."""

    name: Annotated[str, Key("The campaign's name, and that of the folder of its runs. Default: the file's name.")] = ""
    seed: Annotated[int | None, Key("Decides every draw of every test. Default: drawn. `--seed` comes before it.")] = None
    defaults: Annotated[
        Mapping[str, Any], Key("Keys of a test that lie beneath every test: tables merge deeply, lists and values are replaced.")
    ] = field(default_factory=dict)
    test: Annotated[Tables, Key("The tests, each a `[[test]]` of its own; at least one.")] = ()


@dataclass(frozen=True)
class Campaign:
    """A campaign file, read and found good."""

    name: str
    seed: int
    tests: list[Test]
    path: Path
    cluster: tuple[str, ...] = ()  # words of the command line that name another cluster than the file does


@dataclass(frozen=True)
class PlannedRun:
    """One run that is to be performed: its test, its seed, and the command that repeats it alone."""

    test: Test
    seed: int
    command: str


def read(path: Path, seed: int | None = None, cluster: Mapping[str, Any] | None = None) -> Campaign:
    """The campaign in the file `path`; `seed` comes before any that the file names.

    cluster: a kind and options that are laid over every test's `[test.cluster]`, so that one campaign runs anywhere.
    Raises CampaignError with every mistake: file, key, what is wrong, and the nearest right word.
    """
    table = read_toml(path)
    reader = KeyReader(lambda keys: ".".join(str(key) for key in keys))
    file = CampaignFile(**reader.fields(CampaignFile, table))
    mistakes = reader.mistakes
    if table.get("test", []) == []:
        mistakes.append("test: there is none; a campaign needs at least one [[test]]")
    name = file.name or path.stem
    make_importable([Path.cwd(), path.parent])
    tests: list[Test] = []
    for number, own in enumerate(file.test):
        found, wrong = _tests_of(number, own, file.defaults, name, cluster or {})
        tests += found
        mistakes += wrong
    mistakes += _duplicate_names([own.get("name") for own in file.test])
    mistakes += _duplicate_names([test.name for test in tests])
    if mistakes:
        raise CampaignError([f"{path}: {mistake}" for mistake in dict.fromkeys(mistakes)])
    if seed is not None:
        tests = [replace(test, seed=seed) for test in tests]
    drawn = next(s for s in (seed, file.seed, draw_seed()) if s is not None)
    return Campaign(name, drawn, tests, path, _cluster_words(cluster or {}))


def draw_seed() -> int:
    """A seed for who gave none."""
    return secrets.randbelow(1_000_000)


def planned(campaign: Campaign, only: Sequence[str] = (), repeat: int | None = None) -> list[PlannedRun]:
    """The runs of a campaign in their order. `only` names tests, or tests of a matrix by the name before the bracket.

    Raises CampaignError when `only` names a test that is not there.
    """
    names = [test.name for test in campaign.tests]
    known = [*names, *(name.partition("[")[0] for name in names)]
    if lost := [f"--only: {unknown('test', name, set(known))}" for name in only if name not in known]:
        raise CampaignError(lost)
    chosen = [test for test in campaign.tests if not only or {test.name, test.name.partition("[")[0]} & set(only)]
    return [
        PlannedRun(test, seed, _command(campaign, test, seed))
        for test in chosen
        for number in range(repeat or test.repeat)
        for seed in [(campaign.seed if test.seed is None else test.seed) + number]
    ]


def _tests_of(
    number: int, own: Mapping[str, Any], defaults: Mapping[str, Any], campaign: str, cluster: Mapping[str, Any]
) -> tuple[list[Test], list[str]]:
    """Every test that one `[[test]]` makes, and every mistake in it."""
    own, defaults = flat_settings(own), flat_settings(defaults)
    table = merged(merged(defaults, own), {"cluster": dict(cluster)} if cluster else {})
    matrix = table.pop("matrix", {})
    where = f"test[{number}]"
    if not isinstance(matrix, dict) or not all(isinstance(values, list) and values for values in matrix.values()):
        return [], [f"{where}.matrix: must be a table of lists that are not empty, not {matrix!r}"]
    tests, mistakes = [], []
    for values in itertools.product(*matrix.values()):
        point = dict(zip(matrix, values, strict=True))

        def locate(keys: Keys, point: Mapping[str, Any] = point) -> str:
            return name_in_file(keys, where, own, defaults, point)

        try:
            tests.append(read_test(at_point(table, point), locate, campaign))
        except CampaignError as error:
            mistakes += error.mistakes
    return tests, mistakes


def _duplicate_names(names: Sequence[Any]) -> list[str]:
    return [
        f'test: {count} tests are called "{name}"'
        for name, count in Counter(map(str, names)).items()
        if count > 1 and name != "None"
    ]


def _command(campaign: Campaign, test: Test, seed: int) -> str:
    words = ["fencepost", "campaign", str(campaign.path), "--only", test.name, "--seed", str(seed)]
    return shlex.join([*words, *(["--repeat", "1"] if test.repeat > 1 else []), *campaign.cluster])


def _cluster_words(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """The options of `fencepost campaign` for this cluster."""
    kind = ("--cluster", str(cluster["kind"])) if "kind" in cluster else ()
    options = [f"{key}={json.dumps(value)}" for key, value in cluster.items() if key != "kind"]
    return (*kind, *(word for option in options for word in ("--cluster-set", option)))
