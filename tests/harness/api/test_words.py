"""Counts, lists and suggestions in sentences."""

import pytest

from fencepost.harness.api.words import MOST_NAMED, and_more, did_you_mean, enumeration, form, plural, unknown_word


@pytest.mark.parametrize(
    ("count", "words", "expected"),
    [
        (1, ("finding",), "1 finding"),
        (0, ("finding",), "0 findings"),
        (1234, ("finding",), "1,234 findings"),
        (2, ("anomaly", "anomalies"), "2 anomalies"),
    ],
)
def test_a_count_has_the_word_that_goes_with_it(count, words, expected):
    assert plural(count, *words) == expected


def test_verbs_go_with_a_count_too():
    assert [form(count, "was", "were") for count in (0, 1, 2)] == ["were", "was", "were"]


@pytest.mark.parametrize(("count", "expected"), [(-1, ""), (0, ""), (1, " and 1 more"), (2000, " and 2,000 more")])
def test_what_is_not_named_is_counted(count, expected):
    assert and_more(count) == expected


@pytest.mark.parametrize(("parts", "expected"), [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")])
def test_the_last_of_a_list_has_its_own_word_before_it(parts, expected):
    assert enumeration(parts, "or") == expected


def test_a_word_that_resembles_a_known_one_is_suggested():
    assert did_you_mean("tagret", {"count": 1, "target": 2}) == '; did you mean "target"?'
    assert did_you_mean("nothing alike", ["count"]) == ""


def test_a_part_of_known_words_suggests_them():
    known = ["torn-offset", "torn-transaction", "lost-write", "tornado"]
    assert did_you_mean("torn", known) == '; did you mean "tornado"?'
    assert did_you_mean("torn", known[:3]) == '; did you mean "torn-offset" or "torn-transaction"?'
    assert did_you_mean("WRITE", known) == '; did you mean "lost-write"?'
    assert did_you_mean("to", known) == ""


@pytest.mark.parametrize(("count", "named"), [(MOST_NAMED, True), (MOST_NAMED + 1, False)])
def test_many_known_words_are_counted_and_not_named(count, named):
    sentence = unknown_word("anomaly", "w00", [f"w{number:03}" for number in range(count)])
    assert sentence.startswith('unknown anomaly "w00"; did you mean "w0')
    assert sentence.endswith(f", w{count - 1:03}" if named else f" There are {count}: `fencepost plugins` lists them")
