"""Counts, lists and suggestions in sentences."""

import pytest

from fencepost.harness.api.words import and_more, did_you_mean, enumeration, form, plural


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
