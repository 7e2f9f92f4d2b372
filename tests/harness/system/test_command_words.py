"""Placeholders in the command of a program."""

from __future__ import annotations

import sys

import pytest

from fencepost.harness.system.command_words import placeholders_in, resolved
from fencepost.harness.system.package_files import EXAMPLES


def test_placeholders_stand_for_the_interpreter_and_the_examples_anywhere_in_a_word():
    words = ("env", "PYTHONPATH={examples}/applications", "{python}", "{examples}/applications/streams.py", "count")
    found = resolved(words)
    assert found == (
        "env",
        f"PYTHONPATH={EXAMPLES}/applications",
        sys.executable,
        f"{EXAMPLES}/applications/streams.py",
        "count",
    )
    assert resolved(found) == found
    assert placeholders_in(words) == ["{examples}", "{python}"]


@pytest.mark.parametrize("word", ['{"order": 7}', "${HOME}/x", "${python}", "{}", "a{b}", "{print $1}", "'{n}'", "{a}b"])
def test_other_braces_are_the_programs_own(word):
    assert resolved((word,)) == (word,)


@pytest.mark.parametrize(("word", "hint"), [("{pyton}", '; did you mean "{python}"?'), ("{home}/bin/x", ".")])
def test_an_unknown_placeholder_is_refused(word, hint):
    name = word[: word.index("}") + 1]
    with pytest.raises(ValueError, match="unknown placeholder") as caught:
        resolved(("true", word))
    assert str(caught.value) == f'unknown placeholder "{name}"{hint} There are: {{examples}}, {{python}}'
