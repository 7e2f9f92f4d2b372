"""Campaigns that come with fencepost, by name: `fencepost campaign first` from any working directory."""

from __future__ import annotations

import os
from pathlib import Path

from fencepost.harness.api import CampaignError
from fencepost.harness.plugins.registry import unknown
from fencepost.harness.system.package_files import campaigns


def campaign_file(given: Path) -> Path:
    """The file of the campaign that a command line names.

    A file that is there comes first, as it is given or with `.toml` added to a bare name. Else `first`, `first.toml` and
    `campaigns/first.toml` are the campaign "first" that comes with fencepost. Any other path is returned as it is: reading it
    tells why it cannot be read. Raises CampaignError for a name that no campaign has, with those there are.
    """
    bare = given.with_suffix(".toml") if given.name == str(given) and given.name and not given.suffix else given
    if there := next((path for path in (given, bare) if os.path.isfile(path)), None):
        return there
    name = given.stem if given.suffix in ("", ".toml") and str(given.parent) in (".", "campaigns") else ""
    if not name or name in campaigns():
        return campaigns().get(name, given)
    if os.path.lexists(given):
        return given
    raise CampaignError([f"{given}: cannot be read: No such file or directory; {unknown('campaign', name, campaigns())}"])


def completed(beginning: str) -> list[str]:
    """Completions of `fencepost campaign`: TOML files of the working directory, then names of campaigns."""
    files = sorted(path.name for path in Path.cwd().glob("*.toml"))
    return [name for name in (*files, *campaigns()) if name.startswith(beginning)]
