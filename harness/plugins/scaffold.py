"""`fencepost new`: a plug-in that works at once, with its test, written from the example package (examples/plugin)."""

from __future__ import annotations

import ast
import importlib.util
import keyword
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.harness.api import CampaignError
from fencepost.harness.system.package_files import EXAMPLES, PACKAGE

_PLUGIN, _DRIVER = EXAMPLES / "plugin", EXAMPLES / "driver"
_DRIVER_MODULE = "fencepost_driver.py"  # what every driver in Python shares, written beside it


@dataclass(frozen=True)
class Template:
    """A module of the example package, with the name that it defines.

    module: the name of the module.
    camel: the name that it defines, as a class.
    snake: the same as a function or a file.
    kebab: the same in campaigns.
    advice: commands to try next; `{path}` is the new plug-in's import path.
    """

    module: str
    camel: str
    snake: str
    kebab: str
    advice: tuple[str, ...]

    def text(self, file: str, name: str) -> str:
        """A file of the example package, as that of a plug-in called `name` (in snake case)."""
        source = (_PLUGIN / file).read_text()
        words = {f"fencepost_example.{self.module}": name, self.camel: camel(name), self.kebab: kebab(name), self.snake: name}
        pattern = "|".join(re.escape(word) for word in sorted(filter(None, words), key=len, reverse=True))
        return re.sub(pattern, lambda match: words[match[0]], source)

    def defines(self, name: str) -> str:
        """The name in code of a plug-in called `name` (in snake case): of a class, or of a check's function."""
        return name if self.module == "check" else camel(name)

    def taken(self) -> set[str]:
        """Names that the module and its test import or use: what is called like one of them would stand in its place."""
        files = (f"fencepost_example/{self.module}.py", f"tests/test_{self.module}.py")
        return set().union(*(_names(ast.parse(self.text(file, self.snake))) for file in files)) - {self.camel, self.snake}


TEMPLATES = {
    "nemesis": Template(
        "fault", "Hiccup", "hiccup", "hiccup", ("fencepost nemesis check {path}", "fencepost run --nemesis {path} --time 30")
    ),
    "workload": Template("workload", "Trickle", "trickle", "trickle", ("fencepost run --workload {path} --time 30",)),
    "transactional-workload": Template(
        "transfer", "Transfer", "transfer", "transfer", ("fencepost run --workload {path} --time 30",)
    ),
    "checker": Template(
        "check",
        "ReadBeforeSent",
        "read_before_sent",
        "read-before-sent",
        ("fencepost run --checker {path} --time 30", "fencepost check latest --checker {path}"),
    ),
    "cluster": Template("cluster", "Frugal", "frugal", "frugal", ("fencepost run --cluster {path} --time 30",)),
}


def new(kind: str, name: str, directory: Path) -> tuple[list[Path], list[str]]:
    """Write `NAME.py` and `test_NAME.py`; returns them, and the commands to try next.

    Raises CampaignError: a name that cannot be a module's or a class's, or files that are there already. Nothing is written then.
    """
    if kind == "client":
        return _new_driver(name, directory)
    template, snake = TEMPLATES[kind], snake_case(name)
    files = {
        directory / f"{snake}.py": template.text(f"fencepost_example/{template.module}.py", snake),
        directory / f"test_{snake}.py": template.text(f"tests/test_{template.module}.py", snake),
    }
    if mistakes := _mistakes(template, name, directory, files):
        raise CampaignError(mistakes)
    _write(files)
    called = f"{snake}:{template.defines(snake)}"
    return list(files), [*_test_commands([*files][1]), *(line.format(path=called) for line in template.advice)]


def _new_driver(name: str, directory: Path) -> tuple[list[Path], list[str]]:
    """Write a driver for a client library, a program of its own, with the module that it needs."""
    snake = snake_case(name)
    words = {"Carrier": camel(snake), "carrier": snake, "#!/usr/bin/env python3": f"#!{sys.executable}"}
    files = {directory / f"{snake}.py": "carrier.py", directory / f"test_{snake}.py": "test_carrier.py"}
    texts = {path: (_DRIVER / file).read_text() for path, file in files.items()}
    for old, new_word in words.items():
        texts = {path: text.replace(old, new_word) for path, text in texts.items()}
    texts[directory / _DRIVER_MODULE] = (PACKAGE / "workloads/drivers/python/driver.py").read_text()
    if not snake.isidentifier() or f"{snake}.py" == _DRIVER_MODULE:
        raise CampaignError([f'"{name}" cannot be the name of a program in Python; use letters, digits and _, like my_driver'])
    if there := [path for path in files if path.exists()]:
        raise CampaignError([f"{path} is there already, and is left alone; use another name" for path in there])
    _write(texts)
    program = directory / f"{snake}.py"
    program.chmod(0o755)
    called = program if "/" in str(program) else f"./{program}"
    tested = _test_commands(directory / f"test_{snake}.py")
    return list(texts), [*tested, f"fencepost client check {called}", f"fencepost run --client {called} --time 30"]


def _test_commands(file: Path) -> list[str]:
    """The commands that pass a test; an installation without a working copy may have no pytest."""
    fetch = [] if importlib.util.find_spec("pytest") else [f"{sys.executable} -m pip install pytest"]
    return [*fetch, f"{sys.executable} -m pytest {file}"]


def _write(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CampaignError([f"{path}: cannot be written: {error.strerror}"]) from error


def snake_case(name: str) -> str:
    """`SlowDisk`, `slow-disk` and `slow_disk` are all `slow_disk`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip()).replace("-", "_").lower()


def camel(snake: str) -> str:
    return "".join(word.capitalize() for word in snake.split("_"))


def kebab(snake: str) -> str:
    return snake.replace("_", "-")


def _names(tree: ast.AST) -> set[str]:
    """Every name that is imported, defined, or looked up."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
    return names


def _mistakes(template: Template, name: str, directory: Path, files: dict[Path, str]) -> list[str]:
    snake = snake_case(name)
    defined = template.defines(snake)
    if not os.path.isdir(directory):
        return [f"--dir {directory}: there is no such directory"]
    if not (snake.isidentifier() and defined.isidentifier()) or keyword.iskeyword(snake):
        return [f'"{name}" cannot be a module of Python; use letters, digits and _, like slow_disk']
    if keyword.iskeyword(defined):
        return [f'"{name}" would define {defined}, which is a word of Python; use another name, like my_{snake}']
    if defined in template.taken():
        return [f'"{name}" would define {defined}, a name that what is written here uses itself; use another, like my_{snake}']
    if there := [path for path in files if path.exists()]:
        return [f"{path} is there already, and is left alone; use another name" for path in there]
    if snake in sys.stdlib_module_names or snake in sys.modules or importlib.util.find_spec(snake) is not None:
        return [f'"{snake}" is the name of a module that is installed, and yours would not be found; use another name']
    return []
