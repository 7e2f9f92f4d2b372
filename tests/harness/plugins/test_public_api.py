"""The public interface and its section of docs/plugin-reference.md agree, name by name."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from fencepost.harness.plugins import public_api
from fencepost.harness.plugins.public_api import API, CHECKS, PublicName

PAGE = (Path(__file__).parents[3] / "docs" / "plugin-reference.md").read_text()


def test_the_page_has_the_section_as_it_is_made():
    """`python -m fencepost.harness.plugins.public_api docs/plugin-reference.md` writes it."""
    assert public_api.replaced(PAGE) == PAGE


@pytest.mark.parametrize("module", [API, CHECKS])
def test_every_exported_name_is_listed_with_its_docstring(module):
    listed = public_api.public_names(module)
    assert [public.name for public in listed] == importlib.import_module(module).__all__
    assert [public.name for public in listed if not public.doc.strip()] == []
    assert [public.name for public in listed if f"| `{public.name}` | " not in PAGE] == []


def test_every_sentence_begins_as_a_definition():
    names = [*public_api.public_names(API), *public_api.public_names(CHECKS)]
    openings = {public.name: public.sentence.partition(" ")[0] for public in names}
    assert {name: word for name, word in openings.items() if word in ("What", "Whether", "How", "Where", "Who")} == {}


@pytest.mark.parametrize(
    ("doc", "sentence"),
    [
        ("A link. From a to b.", "A link."),
        ("A link\nof two ``nodes``.\n\nMore.", "A link of two `nodes`."),
        ("Limits, 0.5 to 2.0.", "Limits, 0.5 to 2.0."),
    ],
)
def test_the_meaning_is_the_first_sentence(doc, sentence):
    assert PublicName("Pair", "fencepost.harness.api.capabilities", doc).sentence == sentence


def test_other_sections_of_the_page_stay():
    page = f"# Page\n\n{public_api.HEADING}\n\nold\n\n## Next\n\n## Last\n"
    assert public_api.replaced(page) == f"# Page\n\n{public_api.section()}\n## Next\n\n## Last\n"


def test_a_module_without_a_kind_is_named(monkeypatch):
    monkeypatch.setattr(public_api, "KINDS", {"Values": ("values",)})
    with pytest.raises(ValueError, match=r"fencepost\.harness\.api\.clients: no kind"):
        public_api.section()
