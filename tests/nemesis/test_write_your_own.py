"""The page "write your own fault" tells the truth: its code is the example's, runs, and is a sound fault."""

import re
import sys
from pathlib import Path
from random import Random

import pytest

from fencepost.harness.api import Admin, ClusterError, Receipt
from fencepost.harness.api.effects import calls_of
from fencepost.harness.api.plans import FaultChoice
from fencepost.harness.campaign import campaign
from fencepost.harness.conformance.fixture import Bounds
from fencepost.harness.conformance.stories import Kit
from fencepost.harness.perform.fault_runner import FaultRunner
from fencepost.harness.planning.schedule import draw
from fencepost.harness.plugins.fault_validation import breaches
from fencepost.harness.plugins.registry import build, load
from fencepost.nemesis.testing import FakeClock, FakeCluster

ROOT = Path(__file__).parents[2]
README = (ROOT / "nemesis" / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.fixture
def stutter(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("FENCEPOST_PLUGIN_PATH", "")
    return load("nemesis", "my_faults:Stutter", [ROOT / "examples"])


def test_the_page_shows_the_example_as_it_is():
    assert BLOCKS[0] == (ROOT / "examples" / "my_faults.py").read_text()


def test_the_test_on_the_page_passes(stutter):
    names = {}
    exec(compile(BLOCKS[-1], "README.md", "exec"), names)
    names["test_the_leader_stutters_and_wakes_up"]()


def test_the_page_has_every_method_of_the_admin_interface():
    section = README.partition("### `cluster.admin()`")[2].partition("## Targets")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)\(", row)} == {*calls_of([Admin])}


def test_the_admin_example_on_the_page_moves_a_leader_and_has_what_a_receipt_must_have():
    (block,) = [block for block in BLOCKS if "def hand_over" in block]
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    cluster = FakeCluster()
    receipt = names["hand_over"](cluster, "t-0", Random(1))
    assert (receipt.effective, receipt.targets) == (True, ("n1",))
    assert receipt.evidence["during"] == {"t-0": {"leader": cluster.leader("t", 0)}}


def test_the_example_has_the_interface_of_a_fault(stutter):
    assert breaches(stutter) == []


def test_the_example_passes_every_story_of_the_conformance_kit(stutter):
    results = list(Kit(FakeCluster(), stutter(frozen_s=0, awake_s=0), 7, Bounds(whole_s=0.1, active_s=0.0, breaks=20)).play())
    assert [result for result in results if result.ok is not True] == []


def test_the_example_thaws_whatever_it_may_have_frozen_when_inject_broke_off(stutter):
    """The broker is frozen, and then there is an error: no receipt, but nothing stays frozen."""
    cluster = FakeCluster()
    cluster.resume = lambda node: (_ for _ in ()).throw(ClusterError("cannot resume"))
    fault = stutter(target="broker:n1", frozen_s=0, awake_s=0)
    with pytest.raises(ClusterError):
        fault.inject(cluster, Random(1))
    assert not cluster.whole()
    del cluster.resume
    fault.heal(cluster, Receipt())
    assert cluster.whole()


def test_the_example_runs_in_a_schedule_by_its_import_path(stutter):
    choice = FaultChoice(kind="my_faults:Stutter", options={"target": "random", "frozen_s": 0.0, "awake_s": 0.0})
    cluster, clock, lines = FakeCluster(), FakeClock(), []
    make = lambda injection: build(stutter, injection.options, "nemesis[0]")  # noqa: E731
    runner = FaultRunner(cluster, draw([choice], 600, 7), make, lines.append, clock)
    clock.play(runner.timelines(clock()).values())
    assert len(lines) > 50
    assert all(line["effective"] for line in lines)
    assert cluster.whole()


@pytest.mark.parametrize("page", ["schedules", "administration"])
def test_the_examples_of_the_guides_are_campaigns(page, tmp_path):
    examples = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)
    assert examples
    for example in examples:
        path = tmp_path / "example.toml"
        path.write_text(example if "[[test]]" in example else f'[[test]]\nname = "example"\n{example}')
        (test,) = campaign.read(path).tests
        assert draw(test.nemesis, 300, 7, test.lanes)
