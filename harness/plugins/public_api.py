"""The section "The public interface" of docs/plugin-reference.md, made of the docstrings of all names that are exported.

python -m fencepost.harness.plugins.public_api docs/plugin-reference.md

The sources are parsed, not imported: the interface of checks needs numpy and Spark. A constant or an alias has its docstring in
the line below it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

API, CHECKS = "fencepost.harness.api", "fencepost.checkers.api"
HEADING = "## The public interface"
INTRODUCTION = f"""\
{HEADING}

<!-- Made by `python -m fencepost.harness.plugins.public_api docs/plugin-reference.md`; do not edit. -->

A plug-in imports these names from `{API}`, and those of checks from `{CHECKS}`. They keep their meaning from release to release.
"""
KINDS: Mapping[str, Sequence[str]] = {  # heading -> modules of `harness/api`
    "Options": ("bounds",),
    "Values": ("values", "record_ids"),
    "Errors": ("errors",),
    "Faults": ("faults", "rights"),
    "Capabilities": ("capabilities",),
    "Clusters": ("clusters", "logs", "transactions"),
    "Kafka Connect": ("connect",),
    "Workloads": ("workloads", "roles"),
    "Optional interfaces": ("optional",),
    "Clients": ("clients",),
}


@dataclass(frozen=True)
class PublicName:
    """An exported name.

    name: the name.
    module: the module that defines it.
    doc: its docstring; empty: there is none.
    """

    name: str
    module: str
    doc: str

    @property
    def sentence(self) -> str:
        """The first sentence of the docstring, in one line."""
        paragraph = " ".join(self.doc.partition("\n\n")[0].split())
        return re.split(r"(?<=\.) ", paragraph, maxsplit=1)[0].replace("``", "`")


def section() -> str:
    """The whole section."""
    kinds: dict[str, list[PublicName]] = {kind: [] for kind in KINDS}
    for public in public_names(API):
        kinds[_kind(public)].append(public)
    tables = [f"### {kind}\n\n{_table(names)}" for kind, names in {**kinds, "Checks": public_names(CHECKS)}.items()]
    return "\n".join((INTRODUCTION, *tables))


def public_names(module: str) -> list[PublicName]:
    """The names of a module's `__all__`, in its order."""
    return [_defined(module, name) for name in _exported(module)]


def _exported(module: str) -> list[str]:
    """`__all__ = [...]` of a module."""
    lists = (node.value for node in _statements(module) if isinstance(node, ast.Assign) and "__all__" in _assigned(node))
    return [name for names in lists for name in ast.literal_eval(names)]


def _kind(public: PublicName) -> str:
    """The heading of a name. Raises ValueError for a module that has none."""
    file = public.module.rpartition(".")[2]
    for kind, modules in KINDS.items():
        if file in modules:
            return kind
    raise ValueError(f"{public.module}: no kind of KINDS ({__name__}) has this module")


def _defined(module: str, name: str) -> PublicName:
    """A name where it is defined: imports are followed. Raises LookupError."""
    body = _statements(module)
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return _defined(node.module, name)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return PublicName(name, module, ast.get_docstring(node) or "")
        if name in _assigned(node):
            return PublicName(name, module, _text(below))
    raise LookupError(f"{module}: defines no {name}")


def _assigned(node: ast.stmt) -> list[str]:
    """The names that a statement gives a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _text(node: ast.stmt | None) -> str:
    """A statement that is a text and nothing else; else empty."""
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


@lru_cache
def _statements(module: str) -> list[ast.stmt]:
    """The statements of a module, and those that are for type checkers only."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise LookupError(f"{module}: cannot be found")
    body = ast.parse(Path(spec.origin).read_text("utf-8")).body
    return [inner for node in body for inner in (node.body if isinstance(node, ast.If) else [node])]


def _table(names: Sequence[PublicName]) -> str:
    rows = (f"| `{public.name}` | {public.sentence.replace('|', chr(92) + '|')} |" for public in names)
    return "\n".join(("| name | meaning |", "|---|---|", *rows)) + "\n"


def replaced(page: str) -> str:
    """A page with this section instead of the one that it has."""
    before, heading, after = page.partition(f"{HEADING}\n")
    if not heading:
        raise ValueError(f"the page has no heading {HEADING!r}")
    _, following, rest = after.partition("\n## ")
    return before + section() + following + rest


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(replaced(path.read_text("utf-8")), "utf-8")
