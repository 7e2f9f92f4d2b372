"""TOML -> tests. A campaign with one mistake starts nothing; all its mistakes are reported at once.

`[defaults]` lie beneath every `[[test]]`: tables merge deeply, lists and values are replaced. `[test.matrix]` makes a
test of every combination. A test that is repeated runs with the seeds s, s+1, s+2, ...
"""

from __future__ import annotations

import itertools
import json
import math
import secrets
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.bounds import MOST_EXACT, WEEK_S
from fencepost.harness.api.plans import Key, Tables, Test
from fencepost.harness.campaign.bundled import campaign_file
from fencepost.harness.campaign.lines import CampaignText
from fencepost.harness.campaign.test import KeyReader, read_test
from fencepost.harness.campaign.toml import Keys, at_point, flat_settings, merged, place_in_file, read_toml
from fencepost.harness.plugins.registry import make_importable, shown, unknown
from fencepost.harness.system.package_files import CAMPAIGNS

CANARY, BASELINE = CONTROLS = ("canary", "baseline")  # the tests of campaigns/canary.toml
MOST_TESTS, MOST_RUNS = 1000, 10_000  # of one campaign
MATRIX = """\
A table of lists. The test is performed once for every combination of their values, each with a name of its own
(`steady[3.9.1,target=leader]`). A key is the path of what varies: `"cluster.kafka"`, `"nemesis[0].target"`, or `"nemesis"` for
all faults together."""


@dataclass(frozen=True, kw_only=True)
class CampaignFile:
    """The keys of a campaign file itself."""

    name: Annotated[str, Key("The campaign's name, and that of the folder of its runs. Default: the file's name.", most=100)] = ""
    seed: Annotated[
        int | None, Key("Decides every draw of every test. Default: drawn. `--seed` comes before it.", least=0, most=MOST_EXACT)
    ] = None
    hours: Annotated[
        float | None,
        Key(
            "The time that a round may take: tests that no longer fit into it are left out. Default: any.",
            above=0,
            most=WEEK_S / 3600,
        ),
    ] = None
    canary: Annotated[
        bool,
        Key(
            "`true`: a round begins with a control that must be caught, and with a baseline without faults that must be valid "
            "([Canary and baseline](campaigns.md#canary-and-baseline))."
        ),
    ] = False
    retries: Annotated[
        int,
        Key(
            "How often a run without a verdict is performed again, since something broke. A violation never is.", least=0, most=10
        ),
    ] = 0
    on_red: Annotated[
        str,
        Key(
            "A command for the shell, run after a round that did not end with exit code 0, with its summary on standard input "
            "([On red](campaigns.md#on-red)).",
            most=1000,
        ),
    ] = ""
    defaults: Annotated[
        Mapping[str, Any], Key("Keys of a test that lie beneath every test: tables merge deeply, lists and values are replaced.")
    ] = field(default_factory=dict)
    test: Annotated[Tables, Key("The tests, each a `[[test]]` of its own; at least one.")] = ()


@dataclass(frozen=True)
class Campaign:
    """A campaign file, read and without mistakes.

    name: the campaign's name.
    seed: the seed of tests that have none of their own.
    tests: the tests.
    argument: the word of the command line: a file, or the name of a campaign that comes with fencepost.
    cluster: words of the command line that name another cluster than the file does.
    file: the keys of the file itself.
    path: the path of the file.
    lines: the line of the file on which each test begins, by its name.
    controls: the cluster of the canary and the baseline: the defaults' own, with the command line's laid over it.
    """

    name: str
    seed: int
    tests: list[Test]
    argument: str
    cluster: tuple[str, ...] = ()
    file: CampaignFile = CampaignFile()
    path: Path = Path()
    lines: Mapping[str, int] = field(default_factory=dict)
    controls: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRun:
    """A run that is to be performed.

    test: its test.
    seed: its seed.
    command: the command that repeats it alone.
    round: the performance of the campaign that it belongs to; empty: none.
    """

    test: Test
    seed: int
    command: str
    round: str = ""


def name_of(given: Path) -> str:
    """The name of the campaign in a file. Raises CampaignError: it cannot be read at all."""
    path = campaign_file(given)
    return str(read_toml(path)[0].get("name") or path.stem)


def read(given: Path, seed: int | None = None, cluster: Mapping[str, Any] | None = None) -> Campaign:
    """The campaign in the file `given`, or of that name (`campaign_file`); `seed` comes before any that the file names.

    cluster: a kind and options that are laid over every test's `[test.cluster]`, so that one campaign runs anywhere.
    Raises CampaignError with every mistake: file, key, what is wrong, and the nearest right word.
    """
    path = campaign_file(given)
    table, text = read_toml(path)
    written_file = CampaignText(path, text)
    reader = KeyReader(written_file.place)
    file = CampaignFile(**reader.fields(CampaignFile, table))
    if table.get("test", []) == []:
        reader.wrong(("test",), "there is none; a campaign needs at least one [[test]]")
    name = file.name or path.stem
    make_importable([Path.cwd(), path.parent])
    tests: list[Test] = []
    lines: dict[str, int] = {}
    for number, own in enumerate(file.test if len(file.test) <= MOST_TESTS else ()):
        source = _Source(written_file, ("test", number), flat_settings(own), flat_settings(file.defaults), name)
        own_tests, wrong = _tests_of(source, cluster or {})
        tests += own_tests
        lines |= dict.fromkeys((test.name for test in own_tests), written_file.line(source.where))
        reader.mistakes += wrong
        if len(tests) + len(reader.mistakes) > 2 * MOST_TESTS:  # enough is known
            break
    names = ([own.get("name") for own in file.test], [test.name for test in tests])
    for mistake in [*_duplicate_names(*names), *_too_many(file, tests), *_names_of_controls(file, tests)]:
        reader.wrong(("test",), mistake)
    if reader.mistakes:
        raise CampaignError(list(dict.fromkeys(reader.mistakes)))
    if seed is not None:
        tests = [replace(test, seed=seed) for test in tests]
    drawn = next(s for s in (seed, file.seed, draw_seed()) if s is not None)
    beneath = file.defaults.get("cluster")
    controls = merged(beneath if isinstance(beneath, dict) else {}, cluster or {})
    return Campaign(name, drawn, tests, str(given), _cluster_words(cluster or {}), file, path, lines, controls)


def controls(campaign: Campaign, options: Sequence[str] = ()) -> list[PlannedRun]:
    """The canary, which must be caught, and the baseline, which must be valid, on the cluster of a campaign."""
    own = read(CAMPAIGNS / "canary.toml", campaign.seed, campaign.controls)
    runs = planned(replace(own, argument="canary"), options=options)
    return [replace(run, test=replace(run.test, campaign=campaign.name)) for run in runs]


def draw_seed() -> int:
    """A seed where none is given."""
    return secrets.randbelow(1_000_000)


def planned(
    campaign: Campaign, only: Sequence[str] = (), repeat: int | None = None, options: Sequence[str] = ()
) -> list[PlannedRun]:
    """The runs of a campaign in their order. `only` names tests, or tests of a matrix by the name before the bracket.

    options: words of the command line that the commands which repeat the runs have too.
    Raises CampaignError when `only` names a test that is not there.
    """
    names = [test.name for test in campaign.tests]
    known = [*names, *(name.partition("[")[0] for name in names)]
    if lost := [f"--only: {unknown('test', name, set(known))}" for name in only if name not in known]:
        raise CampaignError(lost)
    chosen = [test for test in campaign.tests if not only or {test.name, test.name.partition("[")[0]} & set(only)]
    return [
        PlannedRun(test, seed, _command(campaign, test, seed, options))
        for test in chosen
        for number in range(repeat or test.repeat)
        for seed in [(campaign.seed if test.seed is None else test.seed) + number]
    ]


@dataclass(frozen=True)
class _Source:
    """A `[[test]]` as it was written.

    file: the campaign file.
    where: its path of keys in the file.
    own: its own table.
    defaults: the defaults beneath it.
    campaign: the name of the campaign.
    """

    file: CampaignText
    where: Keys
    own: Mapping[str, Any]
    defaults: Mapping[str, Any]
    campaign: str

    def place(self, keys: Keys, point: Mapping[str, Any]) -> str:
        return self.file.place(place_in_file(keys, self.where, self.own, self.defaults, point))

    def in_matrix(self, *keys: str | int) -> str:
        return self.file.place((*(self.where if "matrix" in self.own else ("defaults",)), "matrix", *keys))


def _tests_of(source: _Source, cluster: Mapping[str, Any]) -> tuple[list[Test], list[str]]:
    """Every test that a `[[test]]` makes, and every mistake in it."""
    table = merged(merged(source.defaults, source.own), {"cluster": dict(cluster)} if cluster else {})
    matrix, mistakes = _matrix(table.pop("matrix", {}), source)
    tests = []
    for values in itertools.product(*matrix.values()):
        point = dict(zip(matrix, values, strict=True))

        def locate(keys: Keys, point: Mapping[str, Any] = point) -> str:
            return source.place(keys, point)

        varied, nowhere = at_point(table, point)
        mistakes += [f"{source.in_matrix(key)}: leads nowhere in this test" for key in nowhere]
        try:
            tests.append(read_test(varied, locate, source.campaign))
        except CampaignError as error:
            mistakes += error.mistakes
    return tests, mistakes


def _matrix(given: Any, source: _Source) -> tuple[dict[str, list[Any]], list[str]]:
    """The part of a matrix that can be used, so that what else is wrong is found too; and every mistake in it."""
    if not isinstance(given, dict):
        return {}, [f"{source.in_matrix()}: must be a table of lists that are not empty, not {shown(given)}"]
    usable = {key: values for key, values in given.items() if isinstance(values, list) and values}
    mistakes = [
        f"{source.in_matrix(key)}: must be a list that is not empty, not {shown(values)}"
        for key, values in given.items()
        if key not in usable
    ]
    if (combinations := math.prod(len(values) for values in usable.values())) > MOST_TESTS:
        return {}, [*mistakes, f"{source.in_matrix()}: makes {combinations} tests; a campaign has at most {MOST_TESTS}"]
    return usable, mistakes


def _duplicate_names(*lists: Sequence[Any]) -> list[str]:
    counts = [(name, count) for names in lists for name, count in Counter(map(str, names)).items()]
    return [f'{count} tests are called "{name}"' for name, count in counts if count > 1 and name != "None"]


def _too_many(file: CampaignFile, tests: Sequence[Test]) -> list[str]:
    if max(len(file.test), len(tests)) > MOST_TESTS:
        return [f"there are {max(len(file.test), len(tests))}; a campaign has at most {MOST_TESTS}"]
    runs = sum(test.repeat for test in tests)
    return [f"there are {runs} runs with all repeats; a campaign has at most {MOST_RUNS}"] if runs > MOST_RUNS else []


def _names_of_controls(file: CampaignFile, tests: Sequence[Test]) -> list[str]:
    """A mistake for each test that has the name of one that a round performs by itself."""
    taken = [test.name for test in tests if file.canary and test.name in CONTROLS]
    return [f'"{name}" is the name of a test that every round performs by canary = true; choose another one' for name in taken]


def _command(campaign: Campaign, test: Test, seed: int, options: Sequence[str]) -> str:
    words = ["fencepost", "campaign", campaign.argument, "--only", test.name, "--seed", str(seed)]
    return shlex.join([*words, *(["--repeat", "1"] if test.repeat > 1 else []), *campaign.cluster, *options])


def _cluster_words(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """The options of `fencepost campaign` for this cluster."""
    kind = ("--cluster", str(cluster["kind"])) if "kind" in cluster else ()
    options = [f"{key}={json.dumps(value)}" for key, value in cluster.items() if key != "kind"]
    return (*kind, *(word for option in options for word in ("--cluster-set", option)))
