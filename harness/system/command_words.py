"""Placeholders in the command of a program: `{python} {examples}/applications/streams.py`, wherever fencepost is installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from fencepost.harness.system.package_files import EXAMPLES

PLACEHOLDERS: Mapping[str, str] = {"python": sys.executable, "examples": str(EXAMPLES)}
_PLACEHOLDER = re.compile(rf"(?<!\$)\{{({'|'.join(PLACEHOLDERS)})\}}")  # `${python}` is a shell's
_PATH = re.compile(r"\{([A-Za-z_]+)\}(?=/|$)")  # a word that begins so is a path; all other braces belong to the program


def resolved(words: Iterable[str]) -> tuple[str, ...]:
    """The words, each placeholder replaced by what it stands for on this machine; all other braces stay as they are.

    Raises ValueError for a word that begins with an unknown placeholder.
    """
    words = tuple(words)
    for name in (match[1] for match in map(_PATH.match, words) if match):
        if name not in PLACEHOLDERS:
            near = get_close_matches(name, PLACEHOLDERS, n=1)
            hint = f'; did you mean "{{{near[0]}}}"?' if near else "."
            raise ValueError(f'unknown placeholder "{{{name}}}"{hint} There are: {{examples}}, {{python}}')
    return tuple(_PLACEHOLDER.sub(lambda match: PLACEHOLDERS[match[1]], word) for word in words)


def placeholders_in(words: Iterable[str]) -> list[str]:
    """The placeholders in these words, each once."""
    return list(dict.fromkeys(match[0] for word in words for match in _PLACEHOLDER.finditer(word)))
