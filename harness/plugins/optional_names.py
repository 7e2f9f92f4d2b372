"""Optional names of a plug-in (`harness.api.optional`) that are misspelt: the harness would never ask for them.

A name is taken for a misspelt optional one when it is public, is neither a field (fields are options of the plug-in's own) nor
part of its kind's interface, is as near to the optional name as `CUTOFF` says, and the class lacks that optional name. Names of
fewer than `SHORTEST` letters are not looked for, nor those of faults that are fields as a rule (`FIELDS`): too many words are
near. A near name that means something else has to begin with an underscore.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection

from fencepost.harness.api.optional import OPTIONAL, names_of, optional_names

CUTOFF = 0.8  # `settle` for `settle_s` has 0.86, `version` for `all_versions` 0.74
SHORTEST = 4
FIELDS = ("target", "count", "client", "version")


def misspelt(group: str, cls: type, interface: Collection[str] = ()) -> list[str]:
    """Names of a class that are near to an optional one of its kind, and halves of what belongs together: a sentence each.

    interface: names of the kind's interface itself.
    """
    given = {name for name in dir(cls) if not name.startswith("_")} | _fields(cls)
    lacking = [name for name in optional_names(group) if name not in {*given, *FIELDS} and len(name) >= SHORTEST]
    unknown = sorted(given - _fields(cls) - {*interface, *optional_names(group)})
    near = {name: difflib.get_close_matches(name, lacking, n=1, cutoff=CUTOFF) for name in unknown}
    wrong = [
        f'{cls.__name__}.{name} is no name that is looked at; did you mean "{right[0]}"? Else let it begin with an underscore'
        for name, right in near.items()
        if right
    ]
    return wrong or _halves(group, cls, given)


def _fields(cls: type) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()


def _halves(group: str, cls: type, given: Collection[str]) -> list[str]:
    """Protocols with several members of which the class has only some."""
    parts = [(protocol, names_of(protocol)) for protocol in OPTIONAL.get(group, ())]
    return [
        f"{cls.__name__} has {', '.join(name for name in names if name in given)}, and lacks "
        f"{', '.join(name for name in names if name not in given)}: they are one interface ({protocol.__name__})"
        for protocol, names in parts
        if any(name in given for name in names) and not all(name in given for name in names)
    ]
