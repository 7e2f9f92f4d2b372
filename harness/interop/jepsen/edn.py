"""The reader of EDN (github.com/edn-format/edn): every form, one value at a time.

Maps become dicts (pairs where a key comes twice), vectors, lists and sets become lists, keywords and symbols become texts without
their colon, characters become texts, `#tag value` becomes the value (so `#jepsen.history.Op{...}` is the map in it), and what
Python has no exact number for (ratios, decimals with `M`) stays text.

Method: one regular expression splits the text into tokens, and one loop over them keeps a stack of the open collections. That is
more than twice as fast as descending from value to value, because the expression does most of the work.
"""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(
    r"""[^\s,;"\[\](){}\\#][^\s,;"\[\](){}]*  # a number, keyword or symbol
    |[\[\](){}]|\#[{_]          # a bracket, a set's opening, a discard
    |"(?:[^"\\]|\\.)*"          # a string
    |;[^\n]*                    # a comment
    |\\(?:newline|return|space|tab|formfeed|backspace|u[0-9A-Fa-f]{4}|.)
    |[^\s,;"\[\](){}]+          # a tag
    |["]                        # a string that does not end""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d+N?")
_FLOAT = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_EXACT = re.compile(r"[+-]?\d+(/\d+|(\.\d*)?([eE][+-]?\d+)?M)")  # a ratio, or a decimal
_NO_SYMBOL = re.compile(r"[+-]?\d|[^\\]*\\")  # how no symbol begins, and what none holds
_CLOSED_BY = {"[": "]", "(": ")", "{": "}", "#{": "}#"}
_CLOSINGS = frozenset("])}")
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f"}
_NAMED = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_WORDS: dict[str, Any] = {"nil": None, "true": True, "false": False}
_TAG, _DISCARD = object(), object()  # stand before the value that they belong to, until their collection is closed


def read(text: str) -> Any:
    """The one value that `text` holds. Raises ValueError with the position of what is wrong."""
    elements: list[Any] = []  # of the collection that is open; at first of the text itself
    outer: list[tuple[str, list[Any]]] = []  # how each open collection ends, and what the one around it holds
    marked = False  # whether there is any tag or discard
    closed_by, add = _CLOSED_BY.get, elements.append
    for number, token in enumerate(_TOKEN.findall(text)):
        if token.isdecimal():
            add(int(token))
        elif closing := closed_by(token):
            outer.append((closing, elements))
            elements = []
            add = elements.append
        elif token in _CLOSINGS:
            closing, around = outer.pop() if outer else ("a value", elements)
            if closing[0] != token:
                raise ValueError(f"{token!r} at {_position(text, number)} where {closing.rstrip('#')!r} was due")
            values = _unmarked(elements) if marked else elements
            elements, add = around, around.append
            add(_mapping(values, text, number) if closing == "}" else values)
        elif token[0] == ";":
            continue
        elif token[0] == "#":
            marked = True
            add(_marker(token, text, number))
        else:
            add(token[1:] if token[0] == ":" and token[1:2] != ":" else _atom(token, text, number))
    if outer:
        raise ValueError("ends too early")
    values = _unmarked(elements) if marked else elements
    if len(values) != 1:
        raise ValueError(f"more than one value: {text[-20:]!r}" if values else "ends too early")
    return values[0]


def _atom(token: str, text: str, number: int) -> Any:
    first = token[0]
    if first == '"':
        if len(token) == 1:
            raise ValueError(f"not understood at {_position(text, number)}: a text that does not end")
        return _ESCAPE.sub(_unescaped, token[1:-1]) if "\\" in token else token[1:-1]
    if first == ":":
        return token.lstrip(":")
    if first == "\\":
        return _character(token[1:], text, number)
    if token in _WORDS:
        return _WORDS[token]
    if _INTEGER.fullmatch(token):
        return int(token.rstrip("N"))
    if _FLOAT.fullmatch(token):
        return float(token)
    if _NO_SYMBOL.match(token) and not _EXACT.fullmatch(token):
        raise ValueError(f"not understood at {_position(text, number)}: {token[:40]!r}")
    return token


def _character(name: str, text: str, number: int) -> str:
    if not name:
        raise ValueError(f"not understood at {_position(text, number)}: a character without a name")
    return chr(int(name[1:], 16)) if len(name) == 5 and name[0] == "u" else _NAMED.get(name, name)


def _marker(token: str, text: str, number: int) -> Any:
    """A discard, a tag, or the value of `##Inf` and its like."""
    if token == "#":
        raise ValueError(f"not understood at {_position(text, number)}: a tag without a name")
    if token.startswith("##"):
        return token.lstrip("#")
    return _DISCARD if token == "#_" else _TAG


def _unmarked(marked: list[Any]) -> list[Any]:
    """Values without tags and without what is discarded. From the last to the first: a mark belongs to the value behind it."""
    values: list[Any] = []
    for value in reversed(marked):
        if value is not _TAG and value is not _DISCARD:
            values.append(value)
        elif not values:
            raise ValueError("ends too early")
        elif value is _DISCARD:
            values.pop()
    return values[::-1]


def _mapping(flat: list[Any], text: str, number: int) -> Any:
    """A map of a text, from its keys and values in turn. Raises ValueError: one is missing."""
    if len(flat) % 2:
        raise ValueError(f"a map with a key but no value before {_position(text, number)}")
    if None in flat[::2]:
        raise ValueError(f"a map with the key nil before {_position(text, number)}")
    keys = [key if isinstance(key, (str, int)) else str(key) for key in flat[::2]]
    return mapping(list(zip(keys, flat[1::2], strict=True)))


def mapping(pairs: list[tuple[Any, Any]]) -> Any:
    """Pairs of key and value as a dict; as lists of two where a key comes twice, so that nothing of it is lost."""
    mapped = dict(pairs)
    return mapped if len(mapped) == len(pairs) else list(map(list, pairs))


def _position(text: str, number: int) -> int:
    """The place where the token with this number begins; looked up only for the words of an error."""
    return next(match.start() for at, match in enumerate(_TOKEN.finditer(text)) if at == number)


def _unescaped(escape: re.Match[str]) -> str:
    name = escape.group(1)
    return chr(int(name[1:], 16)) if len(name) == 5 else _ESCAPED.get(name, name)
