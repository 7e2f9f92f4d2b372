"""A name -> a class; options -> an instance, or every mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.plugins import registry

pytestmark = pytest.mark.usefixtures("stranger")


def mistakes_of(call, *arguments):
    with pytest.raises(CampaignError) as caught:
        call(*arguments)
    return caught.value.mistakes


def letters(**options):
    return registry.build(registry.load("workload", "letters"), options, "workload")


def test_a_plug_in_of_another_package_is_loaded_as_a_built_in_is():
    assert registry.load("fencepost.nemesis", "hammer").__name__ == "Hammer"
    assert registry.load("nemesis", "hammer") is registry.load("fencepost.nemesis", "hammer")
    assert {"hammer", "kill"} <= set(registry.names("nemesis"))


def test_an_unknown_name_is_refused_with_the_nearest_and_all_known_names():
    [mistake] = mistakes_of(registry.load, "workload", "leters")
    assert 'unknown workload "leters"; did you mean "letters"?' in mistake
    assert "transactions" in mistake
    assert "module:Class" in mistake


def test_a_plug_in_that_cannot_be_imported_says_why():
    [mistake] = mistakes_of(registry.load, "nemesis", "broken")
    assert "strange_things_lost:Gone" in mistake
    assert "No module named 'strange_things_lost'" in mistake


def test_a_module_that_breaks_while_imported_is_a_mistake_not_a_crash(stranger):
    (stranger / "my_faults.py").write_text("1 / 0\n")
    [mistake] = mistakes_of(registry.load, "nemesis", "my_faults:Stutter")
    assert "ZeroDivisionError" in mistake


@pytest.mark.parametrize("package", ["nemesis", "fencepost.nemesis"])
def test_an_import_path_of_a_built_in_is_taken_by_its_former_name_too(package):
    """As older campaigns and plans have it."""
    assert registry.load("nemesis", f"{package}.kill:Kill") is registry.load("nemesis", "kill")


def test_a_package_of_the_users_own_comes_before_a_former_name_of_ours(stranger, monkeypatch):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not Path(entry, "fencepost").is_dir()])
    (stranger / "workloads.py").write_text("class Drip: pass\n")
    assert registry.load("workload", "workloads:Drip").__module__ == "workloads"


def test_a_plug_in_that_imports_a_former_name_is_answered_with_the_present_one(stranger):
    (stranger / "my_faults.py").write_text("from harness.api import Receipt\n")
    [mistake] = mistakes_of(registry.load, "nemesis", "my_faults:Stutter")
    assert mistake.endswith("(since 0.2 it is `fencepost.harness`: import from there)")


def test_a_module_without_the_class_says_so(stranger):
    (stranger / "my_faults.py").write_text("")
    assert mistakes_of(registry.load, "nemesis", "my_faults:Stutter") == [
        '"my_faults:Stutter" cannot be loaded: module my_faults has no Stutter'
    ]


def test_a_module_that_is_not_there_says_where_it_was_looked_for(stranger):
    (mistake,) = mistakes_of(registry.load, "nemesis", "no_such_module:Stutter")
    assert mistake.endswith("; it was looked for in the working directory, beside the campaign, and among what is installed")


def test_a_module_that_lacks_another_is_not_said_to_be_missing_itself(stranger):
    (stranger / "my_faults.py").write_text("import no_such_module")
    (mistake,) = mistakes_of(registry.load, "nemesis", "my_faults:Stutter")
    assert mistake.endswith("No module named 'no_such_module'")


def test_an_import_path_is_found_in_the_directories_given_and_by_processes_started_later(stranger):
    beside = stranger / "campaigns"
    beside.mkdir()
    (beside / "my_faults.py").write_text("class Stutter: pass\n")
    assert registry.load("nemesis", "my_faults:Stutter", [beside]).__name__ == "Stutter"
    child = "from fencepost.harness.plugins import registry; print(registry.load('nemesis', 'my_faults:Stutter').__name__)"
    completed = subprocess.run([sys.executable, "-c", child], cwd="/", env=os.environ, capture_output=True, text=True, check=True)
    assert completed.stdout == "Stutter\n"


def test_a_file_beside_a_campaign_shadows_no_module_of_pythons_own(stranger):
    (stranger / "colorsys.py").write_text("hue = 'stolen'\n")
    registry.make_importable([stranger])
    import colorsys

    assert not hasattr(colorsys, "hue")


def test_options_are_built_with_the_types_of_the_fields():
    made = letters(writers=2, sends=[2, 3])
    assert (made.writers, made.sends, made.slow) == (2, (2, 3), False)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    within_s: float = 1.0
    share: float = 0.5


def test_a_number_of_seconds_is_said_to_be_one():
    assert registry.attempt(Waiting, {"within_s": "5s", "share": "5s"})[1] == [
        ("within_s", "must be a number of seconds, not '5s'"),
        ("share", "must be a number, not '5s'"),
    ]


def test_all_mistakes_in_the_options_are_reported_at_once():
    mistakes = mistakes_of(lambda: letters(writer=2, sends=[1], slow="yes", writers="3"))
    assert len(mistakes) == 4
    assert mistakes[0].startswith('workload.writer: unknown option "writer"; did you mean "writers"?')
    assert any(mistake.startswith("workload.sends[1]: ") for mistake in mistakes)
    assert "workload.slow: must be true or false, not 'yes'" in mistakes
    assert "workload.writers: must be a whole number, not '3'" in mistakes


def test_what_the_class_itself_refuses_is_a_mistake():
    assert mistakes_of(lambda: letters(writers=0)) == ["workload: writers must be at least 1"]


def test_options_are_described_by_docstring_comment_or_string_below():
    described = {option.name: option for option in registry.options(registry.load("workload", "letters"))}
    assert described["writers"].doc == "how many write at the same time"
    assert described["sends"].doc == "letters per envelope, fewest and most"
    assert described["slow"].doc == "writes with a quill"
    assert (described["sends"].type, described["sends"].default) == ("two whole numbers", "[1, 4]")


def test_a_class_that_is_no_dataclass_has_no_options():
    assert registry.options(registry.load("client", "pigeon")) == []
    assert mistakes_of(registry.build, registry.load("client", "pigeon"), {"speed": 1}, "client") == [
        'client.speed: unknown option "speed". There are: none'
    ]


@dataclass(frozen=True, kw_only=True)
class Ladder:
    rungs: int = 3  # how many steps


@dataclass(frozen=True, kw_only=True)
class LongLadder(Ladder):
    slack: float = 0.5  # how far it bends


@dataclass(frozen=True, kw_only=True)
class Rope:
    colours: tuple[Literal["red", "blue"], ...] = (
        "red",  # outside
        "blue",  # and inside
    )
    knot: str = "#1"  # by its number, in a sentence so long that a formatter puts value and sentence on a line of their own


def test_an_option_over_several_lines_keeps_its_sentence():
    assert [(option.type, option.doc) for option in registry.options(Rope)] == [
        ('a list of "red", "blue"', "outside and inside"),
        ("a text", "by its number, in a sentence so long that a formatter puts value and sentence on a line of their own"),
    ]


def test_inherited_options_keep_their_sentences():
    assert [(option.name, option.doc) for option in registry.options(LongLadder)] == [
        ("rungs", "how many steps"),
        ("slack", "how far it bends"),
    ]
