"""A check takes options as every plug-in does: fields of a dataclass, given behind its import path, judged before the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.campaign import campaign
from fencepost.harness.cli import main
from fencepost.harness.plugins.check_options import load_check
from fencepost.harness.plugins.validation import breaches

CODE = """
from dataclasses import dataclass
from typing import Annotated

from fencepost.checkers.api import CheckResult, partition_check
from fencepost.harness.api import Between


@dataclass(frozen=True, kw_only=True)
class Limits:
    least: Annotated[int, Between(1, 9)] = 2  # the smallest gap that counts
    of: tuple[str, ...] = ()


@partition_check("gap", options=Limits)
def gap(log, options):
    "Gaps."
    return CheckResult(options.least)


@partition_check("plain")
def plain(log):
    "Nothing."
    return CheckResult(0)


@partition_check("short", options=Limits)
def short(log):
    "It takes no options."


@partition_check("odd", options=dict)
def odd(log, options):
    "Its options are no dataclass."
"""


@pytest.fixture(autouse=True)
def my_faults(stranger):
    (stranger / "my_faults.py").write_text(CODE)


GIVEN = [("my_faults:gap", 2), ("my_faults:gap,least=5", 5), ("my_faults:gap,least=3,of=['a','b']", 3)]


@pytest.mark.parametrize(("text", "least"), GIVEN)
def test_a_check_gets_its_options(text, least):
    assert load_check(text)(None).compared == least


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("my_faults:gap,leest=3", 'my_faults:gap: leest: unknown option "leest"; did you mean "least"?'),
        ("my_faults:gap,least=10", "my_faults:gap: least: must be between 1 and 9, not 10"),
        ("my_faults:gap,least", 'my_faults:gap: "least" must be key=value'),
        ("my_faults:plain,least=1", "my_faults:plain has no options"),
    ],
)
def test_options_that_a_check_does_not_have_are_mistakes(text, mistake):
    with pytest.raises(CampaignError) as caught:
        load_check(text)
    assert caught.value.mistakes[0].startswith(mistake)


def test_a_check_whose_function_does_not_take_its_options_cannot_be_used():
    assert "must take (log, options)" in breaches("checker", load_check("my_faults:short"))[0]
    assert "must be a frozen dataclass" in breaches("checker", load_check("my_faults:odd"))[0]
    assert breaches("checker", load_check("my_faults:gap,least=4")) == []


def test_a_campaign_and_the_command_line_give_options_alike():
    tables = 'cluster = {kind = "attic"}\nworkload = {kind = "letters"}\nclient = {kind = "pigeon"}\n'
    Path("a.toml").write_text(f'[[test]]\nname = "a"\nexpect = "gap"\ncheckers = "my_faults:gap,least=4"\n{tables}')
    assert campaign.read(Path("a.toml")).tests[0].checkers == ("my_faults:gap,least=4",)
    Path("a.toml").write_text(f'[[test]]\nname = "a"\ncheckers = "my_faults:gap,least=0"\n{tables}')
    with pytest.raises(
        CampaignError, match=r"a\.toml:3: test\[0\]\.checkers: my_faults:gap: least: must be between 1 and 9, not 0"
    ):
        campaign.read(Path("a.toml"))


def test_plugins_lists_the_options_of_a_check(capsys):
    with pytest.raises(SystemExit):
        main.main(["plugins", "my_faults:gap"])
    out = " ".join(capsys.readouterr().out.split())
    assert "least a whole number, 1 to 9 2 the smallest gap that counts" in out
