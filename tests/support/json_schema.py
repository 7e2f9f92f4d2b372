"""As much of JSON Schema (2020-12) as our schemas use. An unknown word in a schema is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
WORDLESS = {"$schema", "$id", "$defs", "title", "description"}


def mistakes(document: Any, schema: dict[str, Any]) -> list[str]:
    """Where a document is not as a schema says."""
    return list(_mistakes(document, schema, schema, "$"))


def _mistakes(value: Any, schema: Any, root: dict[str, Any], at: str) -> Iterator[str]:
    for word, content in schema.items():
        if word in WORDLESS:
            continue
        if word not in CHECKS:
            raise AssertionError(f"{word}: unknown word in the schema")
        yield from CHECKS[word](value, content, schema, root, at)


def _ref(value: Any, content: str, schema: Any, root: Any, at: str) -> Iterator[str]:
    yield from _mistakes(value, root["$defs"][content.removeprefix("#/$defs/")], root, at)


def _type(value: Any, content: str, schema: Any, root: Any, at: str) -> Iterator[str]:
    if not isinstance(value, TYPES[content]) or (isinstance(value, bool) and content in ("integer", "number")):
        yield f"{at}: {value!r} is no {content}"


def _any_of(value: Any, content: list[Any], schema: Any, root: Any, at: str) -> Iterator[str]:
    answers = [list(_mistakes(value, each, root, at)) for each in content]
    if all(answers):
        yield from max(answers, key=lambda answer: answer[0].count("."))


def _properties(value: Any, content: dict[str, Any], schema: Any, root: Any, at: str) -> Iterator[str]:
    for name, inner in content.items() if isinstance(value, dict) else ():
        if name in value:
            yield from _mistakes(value[name], inner, root, f"{at}.{name}")


def _required(value: Any, content: list[str], schema: Any, root: Any, at: str) -> Iterator[str]:
    yield from (f"{at}: lacks {name}" for name in content if isinstance(value, dict) and name not in value)


def _additional(value: Any, content: Any, schema: Any, root: Any, at: str) -> Iterator[str]:
    for name in value.keys() - schema.get("properties", {}).keys() if isinstance(value, dict) else ():
        yield from _mistakes(value[name], content, root, f"{at}.{name}")


def _items(value: Any, content: Any, schema: Any, root: Any, at: str) -> Iterator[str]:
    rest = value[len(schema.get("prefixItems", ())) :] if isinstance(value, list) else []
    for number, item in enumerate(rest):
        yield from [f"{at}: too long"] if content is False else _mistakes(item, content, root, f"{at}[{number}]")


def _prefix(value: Any, content: list[Any], schema: Any, root: Any, at: str) -> Iterator[str]:
    for number, (item, inner) in enumerate(zip(value, content, strict=False)):
        yield from _mistakes(item, inner, root, f"{at}[{number}]")


def _bound(value: Any, of: type, holds: Callable[[], bool], mistake: str) -> list[str]:
    """A bound holds for values of its type, and says nothing of others."""
    return [mistake] if isinstance(value, of) and not holds() else []


CHECKS: dict[str, Any] = {
    "$ref": _ref,
    "type": _type,
    "anyOf": _any_of,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "prefixItems": _prefix,
    "enum": lambda value, content, schema, root, at: [] if value in content else [f"{at}: {value!r} is none of {content}"],
    "const": lambda value, content, schema, root, at: [] if value == content else [f"{at}: {value!r} is not {content!r}"],
    "minimum": lambda value, content, schema, root, at: _bound(value, int, lambda: value >= content, f"{at}: below {content}"),
    "maximum": lambda value, content, schema, root, at: _bound(value, int, lambda: value <= content, f"{at}: above {content}"),
    "minItems": lambda value, content, schema, root, at: _bound(value, list, lambda: len(value) >= content, f"{at}: too short"),
    "maxItems": lambda value, content, schema, root, at: _bound(value, list, lambda: len(value) <= content, f"{at}: too long"),
}


def undocumented(value: Any, schema: dict[str, Any]) -> set[str]:
    """Keys of a document that its schema does not name, each with its place."""
    return set(_undocumented(value, schema, schema, "$"))


def _undocumented(value: Any, schema: Any, root: dict[str, Any], at: str) -> Iterator[str]:
    schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else schema
    for each in schema.get("anyOf", ()):
        yield from _undocumented(value, each, root, at)
    if isinstance(value, dict) and "properties" in schema:
        yield from (f"{at}.{name}" for name in value.keys() - schema["properties"].keys())
        for name in value.keys() & schema["properties"].keys():
            yield from _undocumented(value[name], schema["properties"][name], root, f"{at}.{name}")
    if isinstance(value, list) and schema.get("items"):
        for item in value:
            yield from _undocumented(item, schema["items"], root, f"{at}[]")
