"""The JSON schema of `verdict.json`, made of the types with which every verdict is read (`harness.api.verdict_document`).

python -m fencepost.harness.api.verdict_schema > docs/verdict.schema.json

It describes what fencepost writes; a document may have further keys: those of a check of somebody's own, and of later releases.
The number in its `$id` is that of `schema` in the document; a key's meaning does not change without a new one.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import msgspec

from fencepost.harness.api import verdict_document
from fencepost.harness.api.evidence import Gap
from fencepost.harness.api.values import VERDICT_SCHEMA, Property, Verdict
from fencepost.harness.api.verdict_document import VerdictDocument

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REQUIRED = (
    *("schema", "verdict", "reason", "run", "campaign", "test", "expect", "expectation_met", "weakened"),
    *("properties", "allowed", "findings", "counts", "progress", "timing", "checker"),
)


def verdict_schema() -> dict[str, Any]:
    """The schema as a document."""
    _, definitions = msgspec.json.schema_components([VerdictDocument], ref_template="#/$defs/{name}")
    for name, definition in definitions.items():
        _describe(definition, vars(verdict_document).get(name) or {"Gap": Gap}.get(name))
    verdict = definitions.pop("VerdictDocument")
    verdict["required"] = list(REQUIRED)
    verdict["properties"]["schema"] = {"const": VERDICT_SCHEMA, "description": verdict["properties"]["schema"]["description"]}
    verdict["properties"]["verdict"] |= {"enum": [value.value for value in Verdict]}
    definitions["PropertyDocument"]["properties"]["verdict"] |= {"enum": [value.value for value in Property]}
    return {
        "$schema": DIALECT,
        "$id": f"urn:fencepost:verdict:{VERDICT_SCHEMA}",
        "title": "verdict.json of fencepost",
        **{key: value for key, value in verdict.items() if key != "title"},
        "$defs": dict(sorted(definitions.items())),
    }


def _describe(definition: dict[str, Any], of: Any) -> None:
    """Give a type and its keys their words: the docstring's first sentence, and its lines `key: words`."""
    words = inspect.cleandoc(of.__doc__ or "") if of is not None and "properties" in definition else ""
    summary, _, keys = words.partition("\n\n")
    if not words or not isinstance(of.__doc__, str):
        definition.pop("description", None)
        return
    definition["description"] = " ".join(summary.split())
    for key, meaning in re.findall(r"^(\w+): (.*(?:\n    .*)*)", keys, re.MULTILINE):
        if key in definition["properties"]:
            definition["properties"][key] = {**definition["properties"][key], "description": " ".join(meaning.split())}


def schema_text() -> str:
    """The schema as text."""
    return json.dumps(verdict_schema(), indent=1) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")  # noqa: T201
