"""Versions of Kafka as text: what one looks like, and their order."""

from __future__ import annotations

import re

from fencepost.harness.api.values import from_digits

KNOWN = ("3.2.0", "3.9.1", "4.1.1", "4.2.0", "4.3.0", "4.4.0")  # whose brokers have been run here
_RELEASE = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}")
_OLDEST = [3, 0, 0]  # before, brokers need ZooKeeper


def refusal(version: str) -> str:
    """The reason why a text can be no version that is run here; empty when it may be one."""
    if not _RELEASE.fullmatch(version):
        return f'"{version}" is no version of Kafka; one is written like {KNOWN[-1]}'
    if numbers(version) < _OLDEST:
        return f"Kafka {version} needs ZooKeeper; the oldest that does without is 3.0.0"
    return ""


def numbers(version: str) -> list[int]:
    """The parts of a version, to sort by."""
    return [from_digits(part) if part.isdecimal() else -1 for part in version.split(".")]
