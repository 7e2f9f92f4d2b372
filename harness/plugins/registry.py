"""A name -> a class, through entry points; a class and its options -> an instance, or every mistake in them.

Built-in and other plug-ins are found in the same way: by a name from an entry-point group (`fencepost.nemesis`, ...) or an
import path `module:Name`, for which the current directory, the campaign's, and that of the campaigns that come with fencepost are
searched too. The fields of a plug-in's dataclass are its options.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import io
import json
import os
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from typing import Any, get_type_hints

from fencepost.harness.api import CampaignError
from fencepost.harness.api.bounds import bounds_of, unusable_numbers
from fencepost.harness.api.former_names import FORMER_PACKAGES, former_name_hint
from fencepost.harness.api.words import unknown_word
from fencepost.harness.plugins.misspelt_arguments import misspelt_argument
from fencepost.harness.plugins.type_words import in_words
from fencepost.harness.system.package_files import CAMPAIGNS

GROUPS = ("cluster", "workload", "client", "driver", "nemesis", "checker")
RENAMED_FAULTS = {  # a fault's former name -> its name
    "flap": "link-flap",
    "lossy": "packet-loss",
    "narrow": "bandwidth",
    "roll": "rolling-restart",
    "skew": "clock-skew",
    "slow": "latency",
    "stop": "graceful-stop",
    "strand": "isolate-then-kill",
}
_OF_PYDANTIC = {  # its words -> ours
    "Input should be a valid number": "must be a number",
    "Input should be a valid integer": "must be a whole number",
    "Input should be a valid boolean": "must be true or false",
    "Input should be a valid string": "must be a text",
    "Input should be a valid array": "must be a list",
    "Input should be a valid list": "must be a list",
    "Input should be a valid tuple": "must be a list",
    "Input should be an object": "must be a table",
    "Input should be a valid dictionary": "must be a table",
    "Input should": "must",
    "Tuple should": "must",
    "List should": "must",
}
SEARCH_VARIABLE = "FENCEPOST_PLUGIN_PATH"  # inherited by the processes that perform a test
_OPTION_DOC = re.compile(r"^([a-z_][\w, ]*): (.+(?:\n[ \t]+.+)*)", flags=re.MULTILINE)


@dataclass(frozen=True)
class Option:
    """An option of a plug-in.

    name: its name.
    type: its values, in words.
    default: its default as text; `required`: there is none.
    doc: its sentence; may be empty.
    """

    name: str
    type: str
    default: str
    doc: str


def names(group: str) -> list[str]:
    """Every name of a group (`nemesis`, or `fencepost.nemesis`), sorted."""
    return sorted({entry.name for entry in _entries(group)})


def load(group: str, name_or_path: str, search: Sequence[Path] = ()) -> Any:
    """The class or function behind a name of `group`, or behind an import path `module:Name`.

    `search` are directories that may hold the module, besides the current one.
    Raises CampaignError: renamed (with the new name), unknown (with the nearest names), or not importable (with why).
    """
    if ":" in name_or_path:
        return _import(name_or_path, search)
    entries = [entry for entry in _entries(group) if entry.name == name_or_path]
    if not entries:
        if _short(group) == "nemesis" and name_or_path in RENAMED_FAULTS:
            raise CampaignError([renamed(name_or_path)])
        raise CampaignError([unknown(_short(group), name_or_path, names(group)) + ", or an import path `module:Class`"])
    return _import_from(entries[0].value)


def import_paths(group: str) -> list[str]:
    """The import paths `module:Name` of all installed plug-ins of a group."""
    return [entry.value for entry in _entries(group)]


def make_importable(directories: Iterable[Path]) -> None:
    """Let `module:Name` find modules in these directories, here and in processes started from here.

    They go last in `sys.path`, so that a stray `signal.py` beside a campaign shadows nothing.
    """
    known = [part for part in os.environ.get(SEARCH_VARIABLE, "").split(os.pathsep) if part]
    known += [text for text in (str(directory.resolve()) for directory in directories) if text not in known]
    os.environ[SEARCH_VARIABLE] = os.pathsep.join(known)
    sys.path.extend(part for part in known if part not in sys.path)


def build(cls: Any, options: Mapping[str, Any], where: str) -> Any:
    """An instance of `cls` with these options. `where` names the table they stand in, for the mistakes.

    Raises CampaignError with every mistake in them: see `attempt`.
    """
    instance, mistakes = attempt(cls, options)
    if mistakes:
        raise CampaignError([f"{where}.{key}: {text}" if key else f"{where}: {text}" for key, text in mistakes])
    return instance


def attempt(cls: Any, options: Mapping[str, Any], beside: Iterable[str] = ()) -> tuple[Any, list[tuple[str, str]]]:
    """An instance of `cls` with these options, or what is wrong with them: pairs of a key (`count`, `pair[1]`) and a sentence.

    Wrong is what is unknown, missing, of another type than the field, outside its bounds, or refused by the class itself (then
    the key is empty). Values are JSON-like, as TOML gives them; "3" is no number.

    beside: keys of the same table that are no options, and may have been meant.
    """
    fields = {field.name: field for field in option_fields(cls)}
    mistakes = [(key, _unknown_option(key, fields, beside)) for key in options if key not in fields]
    mistakes += [(name, "missing") for name, field in fields.items() if name not in options and _required(field)]
    hints = _hints(cls) if fields else {}
    bounds = bounds_of(cls) if fields else {}
    values = {}
    for key in options:
        if key in fields:
            values[key], wrong = convert(options[key], hints[key])
            mistakes += [(key + inner, with_unit(key, text)) for inner, text in wrong]
    if mistakes:
        return None, mistakes
    outside = {key: text for key, bound in bounds.items() if key in values and (text := bound.refusal(values[key]))}
    if any(_required(fields[key]) for key in outside):
        return None, list(outside.items())
    made, refused = _made(cls, {key: value for key, value in values.items() if key not in outside})
    mistakes = [*outside.items(), *(("", text) for text in refused)]
    return None if mistakes else made, mistakes


def _unknown_option(key: str, fields: Mapping[str, dataclasses.Field[Any]], beside: Iterable[str]) -> str:
    """What may be meant by a key that is no option: an entry of one that is a table, where it has a dot."""
    outer, _, inner = key.partition(".")
    if outer in fields and "Mapping" in str(fields[outer].type):
        return f'unknown option "{key}"; did you mean {outer} = {{"{inner}" = ...}}?'
    return unknown("option", key, [*fields, *beside])


def _made(cls: Any, values: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """An instance, or what the class itself refuses."""
    try:
        return cls(**values), []
    except CampaignError as error:
        return None, error.mistakes
    except (ValueError, TypeError) as error:
        return None, [str(error)]


def convert(value: Any, hint: Any) -> tuple[Any, list[tuple[str, str]]]:
    """`value` (JSON-like) as the type `hint`, and what is wrong with it: pairs of an inner key (`[1]`) and a sentence."""
    import pydantic

    if odd := list(unusable_numbers(value)):
        return None, odd
    try:
        return _adapter(hint).validate_json(json.dumps(value, default=str), strict=True), []
    except pydantic.ValidationError as error:
        wrong = {_inner(entry["loc"]): f"{_in_words(entry['msg'])}, not {shown(value)}" for entry in error.errors()}
        return None, list(wrong.items())


def with_unit(key: Any, text: str) -> str:
    """A sentence about a value that is no number, with the unit that the name of its option ends in: a text may have had one."""
    return text.replace("must be a number", "must be a number of seconds", 1) if str(key).endswith("_s") else text


@lru_cache(maxsize=500)
def _hints(cls: Any) -> Mapping[str, Any]:
    return get_type_hints(cls)


@lru_cache(maxsize=500)
def _adapter(hint: Any) -> Any:
    import pydantic

    return pydantic.TypeAdapter(hint)


def _in_words(text: str) -> str:
    """A sentence of pydantic in the words in which options are described."""
    for theirs, ours in _OF_PYDANTIC.items():
        text = text.replace(theirs, ours)
    return text[:1].lower() + text[1:]


def options(cls: Any) -> list[Option]:
    """The options of a plug-in's class, in the order it declares them. A function or plain class has none."""
    fields = option_fields(cls)
    if not fields:
        return []
    docs, hints, bounds = _field_docs(cls), get_type_hints(cls), bounds_of(cls)
    return [
        Option(
            name=field.name,
            type=in_words(hints[field.name], bounds.get(field.name)),
            default=_default(field),
            doc=docs.get(field.name, ""),
        )
        for field in fields
    ]


def option_fields(cls: Any) -> list[dataclasses.Field[Any]]:
    """The dataclass fields that a person may set; none for what is no dataclass, and for a check, which is an instance of one."""
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return []
    return [field for field in dataclasses.fields(cls) if field.init]


def shown(value: Any) -> str:
    """A value in a sentence about it: on one line, and not at any length."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:80]}... ({len(text)} characters)"


def unknown(what: str, word: str, choices: Iterable[str]) -> str:
    """The same as `unknown_word`, with the choices in the order of their names."""
    return unknown_word(what, word, sorted(choices))


def renamed(name: str) -> str:
    """`the fault "slow" is called "latency" now`; empty for a name that no fault had."""
    return f'the fault "{name}" is called "{RENAMED_FAULTS[name]}" now' if name in RENAMED_FAULTS else ""


def _entries(group: str) -> tuple[EntryPoint, ...]:
    return _installed(tuple(sys.path)).get(_full(group), ())


@lru_cache(maxsize=64)
def _installed(path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of everything installed along `sys.path`, by group: looked up once, though a campaign asks for many.

    Of several distributions with one name the first counts, as for `importlib.metadata.entry_points`.
    """
    by_distribution: dict[str, tuple[EntryPoint, ...]] = {}
    for name, entries in (pair for directory in path for pair in _installed_in(directory).items()):
        by_distribution.setdefault(name, entries)
    ours = [entry for entries in by_distribution.values() for entry in entries]
    return {group: tuple(entry for entry in ours if entry.group == group) for group in {entry.group for entry in ours}}


@lru_cache(maxsize=64)
def _installed_in(directory: str) -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points for us of what is installed in one directory of `sys.path`, by the distribution's name."""
    by_distribution: dict[str, tuple[EntryPoint, ...]] = {}
    for distribution in distributions(path=[directory]):
        if ours := tuple(entry for entry in distribution.entry_points if entry.group.startswith("fencepost.")):
            by_distribution.setdefault(distribution.name, ours)
    return by_distribution


def _full(group: str) -> str:
    return f"fencepost.{_short(group)}"


def _short(group: str) -> str:
    return group.removeprefix("fencepost.")


def _import(path: str, search: Sequence[Path]) -> Any:
    make_importable([Path.cwd(), *search, CAMPAIGNS])
    return _import_from(path)


def _import_from(path: str) -> Any:
    """The object behind `module:Name`, from what is importable already."""
    module, _, name = path.partition(":")
    try:
        loaded = _module(module)
    except (Exception, SystemExit) as error:  # a plug-in's module may raise anything while it is imported
        hint = former_name_hint(error) or misspelt_argument(error) or _where(error, module)
        raise CampaignError([f'"{path}" cannot be loaded: {type(error).__name__}: {error}{hint}']) from error
    try:
        return getattr(loaded, name)
    except AttributeError as error:
        raise CampaignError([f'"{path}" cannot be loaded: module {module} has no {name}']) from error


def _where(error: BaseException, module: str) -> str:
    """Where a module that was not found was looked for, beside what is installed."""
    if not isinstance(error, ModuleNotFoundError) or error.name != module.partition(".")[0]:
        return ""
    return "; it was looked for in the working directory, beside the campaign, and among what is installed"


def _module(name: str) -> Any:
    """A module by its name; by its present one if that is the name it had before 0.2, as in campaigns and plans of then."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if name.partition(".")[0] in FORMER_PACKAGES and former_name_hint(error):
            return importlib.import_module(f"fencepost.{name}")
        raise


def _inner(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> str:
    if _required(field):
        return "required"
    value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return json.dumps(value, default=str)


def _field_docs(cls: Any) -> dict[str, str]:
    """Sentences of fields, those that a class inherits included."""
    docs: dict[str, str] = {}
    for base in reversed(inspect.getmro(cls) if inspect.isclass(cls) else [cls]):
        docs |= _own_field_docs(base)
    return docs


@lru_cache(maxsize=256)
def _own_field_docs(cls: Any) -> Mapping[str, str]:
    """Sentences of fields: `name: ...` in the docstring, or the string below a field, or the comment behind it."""
    docs = _docs_in_docstring(cls)
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # no source to be had: the docstring must do
        return docs
    body, comments = getattr(ast.parse(source).body[0], "body", []), _comments(source)
    for statement, follower in zip(body, [*body[1:], None], strict=True):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        if comment := " ".join(comments[line] for line in lines if comments.get(line)):
            docs[statement.target.id] = comment
        if isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant) and isinstance(follower.value.value, str):
            docs[statement.target.id] = " ".join(follower.value.value.split())
    return docs


def _comments(source: str) -> dict[int, str]:
    """The comment of each line that has one, without its `#`."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("#").strip() for token in tokens if token.type == tokenize.COMMENT}


def _docs_in_docstring(cls: Any) -> dict[str, str]:
    """`count: how many` and its indented continuation lines; `target, count: ...` is the sentence of both."""
    names = {field.name for field in option_fields(cls)}
    paragraphs = _OPTION_DOC.findall(inspect.getdoc(cls) or "")
    sentences = {name: " ".join(text.split()) for several, text in paragraphs for name in re.split(r",\s*", several)}
    return {name: text for name, text in sentences.items() if name in names}


def doc_without_options(plug_in: Any) -> str:
    """The docstring of a plug-in (of a check: of its function) without the sentences about its options."""
    doc = inspect.getdoc(getattr(plug_in, "function", plug_in)) or ""
    names = {field.name for field in option_fields(plug_in)}
    cut = _OPTION_DOC.sub(lambda match: "" if set(re.split(r",\s*", match[1])) <= names else match[0], doc)
    return re.sub(r"\n{3,}", "\n\n", cut).strip()
