"""The options of the `command` cluster, and which capabilities it lacks."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from fencepost.clusters.command import template
from fencepost.clusters.kafka.options import NO_PROXY
from fencepost.clusters.local.options import SandboxOptions
from fencepost.harness.api import Authorizing, Between, Corruptible, Interceptable, Powered, Upgradable, Wipeable
from fencepost.harness.system.programs import no_program

ONE_VERSION = "`command` starts one program: its version does not change in the middle of a run"
NO_RIGHTS = "how this broker gives rights to clients is not known here"
NOT_KAFKAS_FILES = "the layout of this broker's files is not known here; of a build of Kafka it is: is_kafka = true"
BEHIND_IT = (
    "the broker has to listen behind the proxy, which has the port that clients are told: write {listen_port} in the place of "
    "{port} where it listens, and leave {port} where it advertises"
)
NO_WIPE = "whether this broker may forget what it holds is not known here"


@dataclass(frozen=True, kw_only=True)
class CommandOptions(SandboxOptions):
    """The options of `[test.cluster]` with `kind = "command"`.

    Texts may have placeholders (docs/clusters.md has all): {node}, {id}, {host}, {port}, {data}, {config}, {peers}, ...
    command: the command line of a node; a text is split as a shell does
    prepare: a command line that is run to its end for each node before its first start; empty: none
    config: the text of each node's settings file; empty: none
    config_name: the name of that file
    environment: variables of each node's process
    peer: how {peers} and {others} name a node
    separator: stands between two of them
    settings: broker settings by Kafka's names, the value of {settings}; the contract follows from them
    without: names of topic settings that this broker does not have; topics are made without them
    title: name and version of the broker, for the report
    ready_s: how long its start may take
    proxy: a proxy before the port for clients of each node, for the fault `protocol` and a record of what is on the wire
    is_kafka: it is a build of Kafka, or a fork of it: {data} holds Kafka's files, and it answers what is asked about transactions
    """

    command: str | tuple[str, ...]
    prepare: str | tuple[str, ...] = ""
    config: str = ""
    config_name: str = "broker.properties"
    environment: Mapping[str, str] = field(default_factory=dict)
    peer: str = "{host}:{internal_port}"
    separator: str = ","
    settings: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    title: str = ""
    ready_s: Annotated[float, Between(1, 3600)] = 90.0
    proxy: bool = False
    is_kafka: bool = False

    def mistakes(self) -> list[str]:
        return [*super().mistakes(), *self._template_mistakes(), *self._program_mistakes()]

    def _template_mistakes(self) -> list[str]:
        texts = {"command": self._text("command"), "prepare": self._text("prepare"), "config": self.config}
        texts |= {f"environment.{name}": str(value) for name, value in self.environment.items()}
        wrong = [f"{key}: {text}" for key, value in texts.items() for text in template.mistakes(value)]
        if self.proxy and not any("{listen_port}" in text for text in texts.values()):
            wrong.append(f"proxy: {BEHIND_IT}")
        wrong += [f"peer: {text}" for text in template.mistakes(self.peer, template.OF_A_PEER)]
        if "/" in self.config_name or self.config_name in ("", ".", "..", "server.log"):
            wrong.append(f'config_name = "{self.config_name}": the name of a file, without a directory, and not server.log')
        lines = f"{texts['command']} {texts['prepare']}"
        if self.config and "{config}" not in lines and self.config_name not in lines:
            wrong.append("config: no command line names {config}, so nobody would read it")
        return wrong

    def _text(self, key: str) -> str:
        value = getattr(self, key)
        return value if isinstance(value, str) else " ".join(value)

    def _program_mistakes(self) -> list[str]:
        wrong = []
        for key in ("command", "prepare"):
            try:
                words = self.words(key)
            except ValueError as error:
                wrong.append(f"{key}: {error}")
                continue
            if not words and key == "command":
                wrong.append("command: it is empty; write the command line of a broker")
            if words and "{" not in words[0] and not shutil.which(words[0]):
                wrong.append(f"{key}: {no_program(words[0])}")
        return wrong

    def words(self, key: str) -> list[str]:
        """The words of `command` or `prepare`, placeholders as they are. Raises ValueError for a quote without its end."""
        value = getattr(self, key)
        return shlex.split(value) if isinstance(value, str) else list(value)

    # ---- as every provider of brokers

    def version(self, node: str) -> str:
        return self.all_versions()[0]

    def all_versions(self) -> list[str]:
        return [self.title or "unknown"]

    def effective_settings(self) -> dict[str, str]:
        return {name: _text(value) for name, value in self.settings.items()}

    def missing_by_choice(self) -> dict[type, str]:
        unknown: dict[type, str] = {} if self.is_kafka else dict.fromkeys((Powered, Corruptible), NOT_KAFKAS_FILES)
        unknown |= {} if self.proxy else {Interceptable: NO_PROXY}
        return {**super().missing_by_choice(), Upgradable: ONE_VERSION, Authorizing: NO_RIGHTS, Wipeable: NO_WIPE, **unknown}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
