"""A check by its import path and the options given for it: `my_checks:gap,least=3`."""

from __future__ import annotations

import dataclasses
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.toml_value import option_parts, toml_value


def load_check(text: str) -> Any:
    """The check behind a name or import path, with its options. Raises CampaignError with every mistake in them."""
    path, *pairs = option_parts(text)
    check = registry.load("checker", path)
    if not pairs:
        return check
    cls = getattr(check, "options", None)
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise CampaignError([f"{path} has no options"])
    split = [pair.partition("=") for pair in pairs]
    wrong = [f'"{key}" must be key=value' for key, equals, _ in split if not equals]
    made, mistakes = registry.attempt(cls, {key.strip(): toml_value(value.strip()) for key, equals, value in split if equals})
    wrong += [f"{key}: {sentence}" if key else sentence for key, sentence in mistakes]
    if wrong:
        raise CampaignError([f"{path}: {sentence}" for sentence in wrong])
    return dataclasses.replace(check, given=made)
