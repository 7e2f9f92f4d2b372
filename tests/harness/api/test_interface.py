"""The public interface: its names are imported when they are asked for, and are those that a type checker sees."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from fencepost.harness import api
from fencepost.harness.api import capabilities


def declared():
    """The module of each name, as the imports for type checkers have it."""
    (block,) = (node for node in ast.parse(Path(api.__file__).read_text()).body if isinstance(node, ast.If))
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_all_names_are_declared_to_type_checkers_and_those_are_all():
    assert sorted(declared()) == sorted(api.__all__)
    assert {*capabilities.__all__} <= {*api.__all__}


@pytest.mark.parametrize("name", api.__all__)
def test_a_name_is_that_of_the_module_which_declares_it(name):
    assert getattr(api, name) is getattr(import_module(declared()[name]), name)


def test_a_name_that_there_is_not_is_no_name():
    assert not hasattr(api, "Kill")
    with pytest.raises(ImportError, match="cannot import name 'Kill'"):
        exec("from fencepost.harness.api import Kill", {})


def test_who_wants_an_error_imports_no_interface():
    code = "import sys\nfrom fencepost.harness.api import CampaignError, HarnessError\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(name for name in loaded if name.startswith("fencepost.harness.api.")) == ["fencepost.harness.api.errors"]
