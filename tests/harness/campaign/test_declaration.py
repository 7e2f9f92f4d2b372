"""A key of a campaign is declared once: from there come its reading, its mistakes, its option and its row in the reference."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import pytest

from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.plans import Budget, FaultChoice, Key, Lane, RunOption, Test, declared
from fencepost.harness.campaign import campaign, reference
from fencepost.harness.campaign.test import KeyReader
from fencepost.harness.cli.run_options import KEY_OPTIONS, options_of
from fencepost.harness.planning import plan
from fencepost.harness.plugins import registry

GUIDE = Path(__file__).parents[3] / "docs" / "campaigns.md"
PAGE = Path(__file__).parents[3] / "docs" / "campaign-reference.md"


@dataclass(frozen=True, kw_only=True)
class WiderTest(Test):
    """A test with one key more."""

    warm_s: Annotated[float, Key("How long clients warm up.", least=0, option=RunOption("--warm"))] = 0.5


def read(table, cls=WiderTest):
    """The fields and the mistakes of a table."""
    reader = KeyReader(lambda keys: ".".join(map(str, keys)))
    return reader.fields(cls, {"name": "a", **table}), reader.mistakes


def test_a_declared_key_is_read_and_has_its_default():
    assert read({"warm_s": 2})[0]["warm_s"] == 2.0
    assert read({})[0]["warm_s"] == 0.5


@pytest.mark.parametrize(
    ("given", "mistake"),
    [
        ({"warm_s": -1}, "warm_s: must be at least 0, not -1"),
        ({"warm_s": "x"}, "warm_s: must be a number of seconds, not 'x'"),
        ({"warms": 1}, 'warms: unknown key "warms"; did you mean "warm_s"?'),
    ],
)
def test_a_declared_key_has_its_mistakes(given, mistake):
    _, [reported] = read(given)
    assert reported.startswith(mistake)


def test_a_declared_key_becomes_an_option_of_fencepost_run():
    [option] = options_of(declared(WiderTest)[-1])
    parameter = option.as_parameter()
    assert (parameter.name, parameter.default, option.path) == ("warm", 0.5, ("warm_s",))
    assert parameter.annotation.__metadata__[0].help == "How long clients warm up."


def test_a_declared_key_has_a_row_in_the_reference():
    assert "| `warm_s` | a number, at least 0 | `0.5` | `--warm` | How long clients warm up. |" in reference.key_table(
        WiderTest, options=True
    )


def test_a_declared_plain_key_is_in_the_plan():
    test = WiderTest(name="a", checkers=("a:b",))
    plain = {"expect": ["valid"], "tolerate": [], "checkers": ["a:b"], "time_s": 60.0, "rate": 0.0}
    assert plan.plain_values(test) == {**plain, "warm_s": 0.5}


def test_no_two_options_set_the_same_parameter():
    names = [option.parameter for option in KEY_OPTIONS]
    assert len(set(names)) == len(names)


def test_every_field_of_a_test_but_the_campaigns_name_is_a_key():
    assert {key.field for key in declared(Test)} == {field.name for field in fields(Test)} - {"campaign"}
    assert {key.field for key in declared(FaultChoice)} == {field.name for field in fields(FaultChoice)} - {"options"}


def test_the_reference_page_is_up_to_date():
    assert PAGE.read_text() == reference.page(), (
        "make it again: python -m fencepost.harness.campaign.reference > docs/campaign-reference.md"
    )


def test_the_examples_of_the_guide_are_campaigns_without_mistakes(tmp_path):
    examples = re.findall(r"^```toml\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    for number, example in enumerate(examples):
        (tmp_path / f"{number}.toml").write_text(example)
    names = [[test.name for test in campaign.read(tmp_path / f"{number}.toml").tests] for number in range(len(examples))]
    assert names == [["steady"], ["steady[3.9.1]", "steady[4.4.0]", "torn"], ["enough"], ["steady"]]


@pytest.mark.parametrize(("group", "count"), [("cluster", 6), ("workload", 2), ("nemesis", 25)])
def test_every_option_of_every_built_in_plug_in_stands_on_the_reference_page(group, count):
    page, names = PAGE.read_text(), registry.names(group)
    assert len(names) >= count
    for name in names:
        part = page.partition(f"### `{name}`\n")[2].partition("\n#")[0]
        for option in registry.options(registry.load(group, name)):
            assert f"| `{option.name}` |" in part or "The same as" in part, f"{name}: {option.name}"
            assert option.doc, f"{name}: {option.name} has no sentence"


def test_every_key_that_can_be_declared_stands_on_the_reference_page():
    page = PAGE.read_text()
    for cls in (campaign.CampaignFile, Test, FaultChoice, Lane, Budget):
        for key in declared(cls):
            assert f"| `{'.'.join(key.path)}` |" in page
    assert all(f"| `{key}` |" in page for key in CONTRACT_KEYS)
