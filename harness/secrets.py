"""Secrets stay outside. A setting names where its value lies, `env:NAME` or `file:/path`, and only a process that is about to
open a connection looks there; plans, histories and reports hold the name.

What a process has read of secrets it also knows how to hide: `mask` takes them out of every text that is about to be written.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import changing
from fencepost.harness.api.files import limited

MASK = "***"
STAND_IN = "stand-in"  # where a client's settings are only looked at
_SECRET = re.compile(r"password|passphrase|secret|private\.key|key\.pem|jaas\.config|oauthbearer\.config")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES = 1 << 20  # of a file that holds a secret
_SHORTEST = 4  # a shorter secret cannot be taken out of a text without taking the text apart
_LINE = 16  # of a secret of several lines (a key), lines as long as this are hidden one by one too

_known: set[str] = set()  # every secret that this process has read, in each form it may be written in
_variables: set[str] = set()  # environment variables that hold them
_USERINFO = re.compile(r"(?<=://)(?<!abfs://)(?<!abfss://)(?<!wasb://)(?<!wasbs://)[^\s/?#@\"'<>]+(?=@)")  # Azure: a container


def is_secret(key: str) -> bool:
    """Return whether a client setting of this name holds a secret (`sasl.password`, `ssl.key.pem`, ...)."""
    return bool(_SECRET.search(key))


def is_reference(value: object) -> bool:
    """Return whether a value only refers to the place of the real one."""
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def mistakes(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The mistakes about secrets among `settings`: pairs of a key and a sentence, which never quotes the value."""
    return [(key, wrong) for key, value in settings.items() if (wrong := _mistake(key, value))]


def judged(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` as a client's library may judge them without the secrets: a stand-in for each, and no keys or certificates."""
    plain = {key: STAND_IN if is_reference(value) else value for key, value in settings.items()}
    return {key: value for key, value in plain.items() if not (value == STAND_IN and key.endswith(".pem"))}


def resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with the values that they refer to. Raises CampaignError with every variable or file that gives none."""
    resolved, missing = {}, []
    for key, value in settings.items():
        try:
            resolved[key] = _value(value) if is_reference(value) else value
        except LookupError as error:
            missing.append(f"{key} = {value}: {error.args[0]}")
        else:
            if is_reference(value):  # whatever the setting is called: who refers to a value has a reason to
                _remember(resolved[key])
                _variables.update([value.removeprefix("env:")] if value.startswith("env:") else [])
    if missing:
        raise CampaignError(missing)
    return resolved


def mask(text: str) -> str:
    """`text` without the secrets that this process has read, and without user and password in URLs."""
    text = _USERINFO.sub(MASK, text) if "://" in text else text
    for secret in sorted(_known, key=len, reverse=True):  # a secret may be a part of another
        text = text.replace(secret, MASK)
    return text


def without_secrets(value: Any) -> Any:
    """JSON-like `value` without secrets in its texts."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: without_secrets(entry) for key, entry in value.items()}
    return [without_secrets(entry) for entry in value] if isinstance(value, list | tuple) else value


def environment_without_secrets() -> dict[str, str]:
    """Our environment for a child that needs no secret: without the variables that settings refer to."""
    return {name: value for name, value in os.environ.items() if name not in _variables}


def has_userinfo(text: str) -> bool:
    """Return whether a text has a URL with a user, and perhaps a password, before its host."""
    return bool(_USERINFO.search(text))


def guard() -> None:
    """Mask secrets, from now on, in the traceback of an exception that ends this process or a thread of it."""

    def tell(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        sys.stderr.write(mask("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = tell
    threading.excepthook = lambda ended: tell(ended.exc_type, ended.exc_value, ended.exc_traceback)


def sweep(run_dir: Path, folder: str, say: Callable[[str], None]) -> None:
    """Take secrets out of the files in a folder of a run: libraries write into logs without asking us. `say` hears of each.

    What this process has printed and not written yet is written first, for one of these files may be its standard output.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or nobody reads
            stream.flush()
    for path in sorted((run_dir / folder).rglob("*")) if _known else ():
        if path.is_file() and not path.is_symlink() and _cleaned(run_dir, str(path.relative_to(run_dir))):
            say(f"a secret was taken out of {path}")


def _cleaned(run_dir: Path, file: str) -> bool:
    """Take secrets out of a file, where it lies; whether there were any."""
    with changing(run_dir, file) as opened:
        written = opened.read()
        clean = written
        for secret in sorted(_known, key=len, reverse=True):
            clean = clean.replace(secret.encode(), MASK.encode())
        if clean != written:
            opened.seek(0)
            opened.write(clean)
            opened.truncate()
        return clean != written


def _mistake(key: str, value: Any) -> str:
    kind, _, place = value.partition(":") if is_reference(value) else ("", "", "")
    if kind == "env" and not _NAME.fullmatch(place):
        return f'"{value}" names no environment variable; write it like env:KAFKA_PASSWORD'
    if kind == "file" and not Path(place).expanduser().is_absolute():
        return f'"{value}" names no file by its whole path; write it like file:/run/secrets/kafka'
    if not kind and is_secret(key):
        return (
            "a secret must not stand here, for plans and reports would show it; say where it lies: "
            f'"{key}" = "env:NAME" (an environment variable) or "file:/path"'
        )
    if not kind and isinstance(value, str) and has_userinfo(value):
        return (
            "a URL with user or password must not stand here, for plans and reports would show it; say where it lies: "
            f'"{key}" = "env:NAME" (an environment variable) or "file:/path"'
        )
    return ""


def _value(reference: str) -> str:
    """The value that a reference refers to; of a file all but the last line's end. Raises LookupError with the reason."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        value = os.environ.get(place, "")
        if not value:
            raise LookupError(f"the environment variable {place} is {'empty' if place in os.environ else 'not set'}")
        return value
    try:
        value = limited(Path(place).expanduser(), _MOST_BYTES).decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LookupError(f"the file cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not value.strip():
        raise LookupError("the file is empty")
    return value.removesuffix("\n").removesuffix("\r")


def _remember(secret: str) -> None:
    lines = secret.splitlines() if "\n" in secret else []
    for form in (secret, *(line for line in lines if len(line) >= _LINE and not line.startswith("-----"))):
        if len(form) >= _SHORTEST:
            _known.update((form, json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1], repr(form)[1:-1]))
