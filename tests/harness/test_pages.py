"""Every page: its links and the files that it names exist; docs/development.md lists every file with tests of the nightly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = "harness|checkers|clusters|nemesis|workloads|tests|examples|benchmarks|campaigns"
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), ROOT / "workloads/connectors/README.md"])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def prose(page: str) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", NAMES)
def test_every_link_of_a_page_leads_somewhere(page):
    here = ROOT / page
    for target, anchor in re.findall(r"\]\(([^)\s:#]*)(?:#([^)\s]+))?\)", re.sub(r"`[^`]*`", "", prose(page))):
        there = (here.parent / target).resolve() if target else here
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


@pytest.mark.parametrize("page", NAMES)
def test_every_path_of_the_tree_that_a_page_names_exists(page):
    paths = re.findall(rf"`((?:{TOP})/[\w./-]*)(?::[\w.]+)?`", prose(page))
    assert [path for path in paths if "NAME" not in path and not (ROOT / path).exists()] == []


def test_every_file_with_tests_of_the_nightly_has_a_row():
    table = prose("docs/development.md").partition("## Only in the nightly")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    marked = {path for path in (ROOT / "tests").rglob("test_*.py") if re.search(r"mark\.nightly\b", path.read_text())}
    assert sorted(re.findall(r"`([\w/]+\.py)`", "".join(rows))) == sorted(str(path.relative_to(ROOT)) for path in marked)
