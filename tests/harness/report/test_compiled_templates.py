"""Compiled templates are used again for what they were made from, and for nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from fencepost.harness.report.compiled_templates import CompiledTemplates

SOURCE = Path(__file__)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))


def made(text: str, options: str = "html", **more: object) -> tuple[str, CompiledTemplates, list[str]]:
    """The rendered template, the cache, and the names of the templates that were compiled for it."""
    cache, compiled = CompiledTemplates(options, [SOURCE]), []

    class Noting(Environment):
        def _generate(self, source, name, filename, defer_init=False):
            compiled.append(name)
            return super()._generate(source, name, filename, defer_init)

    environment = Noting(loader=DictLoader({"page": text}), bytecode_cache=cache, **more)
    return environment.get_template("page").render(name="<b>"), cache, compiled


def test_a_template_is_compiled_once():
    first, cache, compiled = made("hello {{ name }}")
    again, _, not_compiled = made("hello {{ name }}")
    assert (first, compiled) == (again, ["page"]) == ("hello <b>", ["page"])
    assert not_compiled == []
    assert len(list(cache.folder.iterdir())) == 1


def test_another_text_is_compiled_anew():
    made("hello {{ name }}")
    assert made("goodbye {{ name }}")[::2] == ("goodbye <b>", ["page"])


def test_another_environment_has_its_own():
    made("hello {{ name }}", "markdown")
    assert made("hello {{ name }}", "html", autoescape=True)[::2] == ("hello &lt;b&gt;", ["page"])


def test_another_version_of_the_functions_has_its_own(tmp_path):
    source = tmp_path / "filters.py"
    source.write_text("")
    before = CompiledTemplates("html", [source]).folder
    os.utime(source, (1, 1))
    assert CompiledTemplates("html", [source]).folder != before


@pytest.mark.parametrize("content", [b"", b"\0", b"j2"], ids=["empty", "foreign", "cut"])
def test_a_damaged_file_is_compiled_anew(content):
    _, cache, _ = made("hello {{ name }}")
    (path,) = cache.folder.iterdir()
    path.write_bytes(content)
    assert made("hello {{ name }}")[::2] == ("hello <b>", ["page"])
    assert made("hello {{ name }}")[2] == []


def test_a_folder_in_which_others_may_write_is_not_trusted():
    _, cache, _ = made("hello {{ name }}")
    cache.folder.chmod(0o777)
    assert made("hello {{ name }}")[2] == ["page"]


def test_a_place_where_nothing_can_be_written_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "file"))
    assert made("hello {{ name }}")[::2] == ("hello <b>", ["page"])


def test_nobodys_home_changes_nothing(monkeypatch):
    for name in ("FENCEPOST_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert made("hello {{ name }}")[0] == "hello <b>"
