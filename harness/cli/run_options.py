"""The options of `fencepost run` that stand for keys of a test: made of the declaration in `harness/api/plans.py`.

A new key with an option needs nothing here. What stands for an option of every cluster (`--kafka`) is written out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin

import typer

from fencepost.harness.api.plans import LEAST, Budget, Choice, DeclaredKey, FaultChoice, RunOption, Test, declared
from fencepost.harness.cli import completions
from fencepost.harness.cli.durations import duration_s

PAIR = "KEY=VALUE"
COMPLETIONS: Mapping[str, completions.Complete] = {
    "--workload": completions.plugin_names("workload"),
    "--set": completions.options_of("workload", "workload", "transactions"),
    "--cluster": completions.plugin_names("cluster"),
    "--cluster-set": completions.options_of("cluster", "cluster", "auto"),
    "--client": completions.plugin_names("client"),
    "--readers": completions.plugin_names("client"),
    "--nemesis": completions.fault,
    "--lane": completions.lane,
    "--budget": completions.keys({key.path[0]: () for key in declared(Budget)}),
    "--at-least": completions.keys(dict.fromkeys(LEAST, ())),
    "--producer": completions.client_settings("producer"),
    "--consumer": completions.client_settings("consumer"),
    "--topic": completions.kafka_settings("topic"),
    "--broker-setting": completions.kafka_settings("broker"),
    "--kafka": completions.kafka_versions,
    "--contract": completions.contract,
    "--expect": completions.plugin_names("checker"),
    "--tolerate": completions.plugin_names("checker"),
}


@dataclass(frozen=True)
class KeyOption:
    """An option and the path of keys that it sets.

    option: its name and help.
    path: the keys, from the outermost.
    form: how its texts are read: `value` (as they are), `texts` (a list), `pairs` (`key=value`, values as TOML's), `settings`
    (`key=value`, texts), `faults` and `lanes` (`name,key=value...`).
    type: of the function parameter.
    default: the value without the option.
    """

    option: RunOption
    path: tuple[str, ...]
    form: str
    type: Any = list[str] | None
    default: Any = None

    @property
    def parameter(self) -> str:
        """The name of the function parameter that takes it."""
        return self.option.name.removeprefix("--").replace("-", "_")

    def as_parameter(self) -> Parameter:
        metavar = self.option.metavar or (PAIR if self.form in ("pairs", "settings") else None)
        names = [name for name in (self.option.name, self.option.short) if name]
        parser = duration_s if self.path[-1].endswith("_s") and self.form == "value" else None
        completed = COMPLETIONS.get(self.option.name)
        info = typer.Option(*names, metavar=metavar, help=self.option.text, autocompletion=completed, parser=parser)
        return Parameter(self.parameter, Parameter.KEYWORD_ONLY, default=self.default, annotation=Annotated[self.type, info])


_OF_CLUSTERS = (
    KeyOption(RunOption("--kafka", text="Kafka's version.", metavar="VERSION"), ("cluster", "kafka"), "value", str | None),
    KeyOption(RunOption("--brokers", text="How many brokers."), ("cluster", "brokers"), "value", int | None),
    KeyOption(RunOption("--broker-setting", text="A setting of every broker."), ("cluster", "settings"), "settings"),
)


def options_of(key: DeclaredKey) -> list[KeyOption]:
    """The options that set a key: none, one, or a plug-in's kind and its options."""
    option, settings = key.key.option, key.key.settings
    if option is None:
        return []
    option = dataclasses.replace(option, text=option.text or key.key.text)
    if key.type is Choice and settings is not None:
        kind = KeyOption(option, (*key.path, "kind"), "value", str, key.default.kind)
        return [kind, KeyOption(settings, key.path, "pairs")]
    form = _form(key.type)
    if form != "value":
        return [KeyOption(option, key.path, form)]
    optional = key.default is MISSING
    return [KeyOption(option, key.path, form, key.type | None if optional else key.type, None if optional else key.default)]


def _form(hint: Any) -> str:
    if hint == tuple[FaultChoice, ...]:
        return "faults"
    if get_origin(hint) is Mapping:
        return "lanes" if dataclasses.is_dataclass(get_args(hint)[1]) else "settings"
    if dataclasses.is_dataclass(hint):
        return "pairs"
    return "texts" if get_origin(hint) is tuple else "value"


KEY_OPTIONS = tuple(
    option for key in declared(Test) for option in (*options_of(key), *(_OF_CLUSTERS if key.field == "cluster" else ()))
)
