"""The pages on plug-ins: their code is the example package's, their commands can be given, their tables are the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import fencepost.checkers.api
from fencepost.harness import api
from fencepost.harness.campaign import campaign
from fencepost.harness.cli import main
from fencepost.harness.conformance.effect_checks import ASPECTS, MEASURED
from fencepost.harness.conformance.results import STORIES

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "plugin"
PAGES = ("plugins", "plugin-faults", "plugin-workloads", "plugin-checks", "plugin-clusters", "plugin-reference")
GUIDE = "\n".join((ROOT / "docs" / f"{page}.md").read_text() for page in PAGES)

OWN_CAPABILITY = (ROOT / "tests" / "harness" / "conformance" / "test_own_capability.py").read_text()
CAPABILITY = "@runtime_checkable\n" + OWN_CAPABILITY.partition("@runtime_checkable\n")[2].partition("\n\n\n")[0] + "\n"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


COMMANDS = [
    line.partition(" #")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.startswith("fencepost")
]


def test_every_module_of_the_example_and_every_test_of_it_is_shown_as_it_is():
    """`tests/e2e/test_example_plugin.py` runs them: the code on the page is the code that passes."""
    files = [*EXAMPLE.glob("fencepost_example/[a-z]*.py"), *EXAMPLE.glob("tests/*.py")]
    assert len(files) == 10
    assert sorted(blocks("python")) == sorted([*(path.read_text() for path in files), CAPABILITY])
    assert (EXAMPLE / "pyproject.toml").read_text() in blocks("toml")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_given(command):
    """The options exist and are of the right form; nothing is performed."""
    _, *words = shlex.split(command)
    command_line = main.command_line()
    while hasattr(command_line, "commands"):
        command_line = command_line.commands[words.pop(0)]
    assert command_line.make_context(command_line.name, words).params


def test_the_campaign_on_the_page_can_be_read_once_its_plug_ins_are_written(stranger, capsys):
    for kind, name in (("nemesis", "slow_disk"), ("workload", "drip"), ("checker", "no_gaps"), ("cluster", "tiny")):
        with pytest.raises(SystemExit) as left:
            main.main(["new", kind, name])
        assert left.value.code == 0
    (text,) = [block for block in blocks("toml") if "[[test]]" in block]
    Path("mine.toml").write_text(text)
    [test] = campaign.read(Path("mine.toml")).tests
    assert (test.checkers, test.nemesis[0].kind) == (("no_gaps:no_gaps",), "slow_disk:SlowDisk")
    assert (test.cluster.kind, test.workload.options) == ("tiny:Tiny", {"writers": 5})


def test_the_stories_are_those_that_are_played():
    for story, meaning in STORIES.items():
        assert f"| {story} | {meaning} |" in GUIDE


def test_the_calls_that_the_kit_sees_are_those_on_the_page():
    """And what it cannot observe is said."""
    table = next(part for part in GUIDE.split("\n\n") if part.startswith("| call | where the kit sees it |"))
    rows = [row.split("|")[1:3] for row in table.splitlines()[2:]]
    calls = {name: where.strip() for names, where in rows for name in re.findall(r"`(\w+)`", names)}
    assert calls.keys() == {*ASPECTS, *MEASURED}
    unseen = [name for name, aspects in ASPECTS.items() if not aspects]
    assert [name for name, where in calls.items() if where == "cannot be observed"] == unseen


def test_the_names_of_the_interfaces_are_in_the_api():
    table = next(part for part in GUIDE.split("\n\n") if part.startswith("| kind | interface"))
    rows = [[cell.strip() for cell in row.split("|")] for row in table.splitlines()[2:]]
    words = {(kind, word) for _, kind, interface, *_ in rows for word in re.findall(r"`([A-Za-z_]+)`", interface)}
    assert len(words) > 15
    assert [word for kind, word in words if word not in (fencepost.checkers.api if kind == "check" else api).__all__] == []
