"""`fencepost proxy`: the fault proxy before brokers of anybody's, for tests in any language."""

from __future__ import annotations

import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.api.values import from_digits
from fencepost.harness.api.wire import FETCHES
from fencepost.harness.api.words import plural
from fencepost.harness.cli.console import Texts, err, pairs, print_line, print_table
from fencepost.harness.secrets import resolve
from fencepost.harness.system.addresses import is_address, is_loopback

if TYPE_CHECKING:
    from fencepost.harness.proxy.process import ProxyProcess, Settings
    from fencepost.harness.proxy.rules import Rule

EXAMPLES = """\b
Examples:
  fencepost proxy --upstream localhost:9092
  fencepost proxy --upstream localhost:9092 --rules rules.toml --record wire
  fencepost proxy --upstream localhost:9092 --record wire --fetches     # then `fencepost check wire`
  fencepost proxy --upstream kafka-1:9092 --upstream kafka-2:9092 --listen-host 0.0.0.0 --advertise proxy --control 0.0.0.0:8474
  fencepost proxy --upstream kafka:9093 --tls-broker ssl.truststore.type=PEM --tls-broker ssl.truststore.location=ca.pem"""
CODES = "Exit codes: 0 ended by Ctrl-C, SIGTERM or POST /stop; 254 what was given cannot be used; 255 fencepost itself broke."
REACH_S = 5.0
MOST_PORT, MOST_DIGITS = 65535, 5
LOOK_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "proxy",
        help="Stand between clients and brokers, and delay, lose, repeat, alter or refuse single requests and answers, chosen by"
        " what they say: rules in a file, or set by a test over HTTP (docs/proxy.md). Clients are given the proxy's address as"
        f" their bootstrap server; addresses of brokers in answers become the proxy's.\n\n{CODES}",
        epilog=EXAMPLES,
    )(proxy)


def proxy(
    upstream: Annotated[list[str], typer.Option("--upstream", metavar="HOST:PORT", help="A broker; may be repeated.")],
    rules: Annotated[Path | None, typer.Option("--rules", metavar="FILE", help="Rules, as tables [[rule]] of TOML.")] = None,
    listen_port: Annotated[
        int,
        typer.Option("--listen-port", min=0, max=65535, help="The port for the first broker, the next one for the next; 0: any."),
    ] = 19092,
    listen_host: Annotated[str, typer.Option("--listen-host", help="The address to listen at.")] = "127.0.0.1",
    advertise: Annotated[
        str, typer.Option("--advertise", metavar="HOST", help="The host by which clients reach it.")
    ] = "127.0.0.1",
    control: Annotated[
        str,
        typer.Option("--control", metavar="HOST:PORT", help="Its HTTP interface; port 0: any. Whoever reaches it may do all."),
    ] = "127.0.0.1:8474",
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="DIR", help="Write what passes to DIR/proxy.jsonl. Default: the newest in memory."),
    ] = None,
    fetches: Annotated[
        bool,
        typer.Option(
            "--fetches",
            help="Record each Fetch of a client: `fencepost check DIR` then knows what readers got.",
        ),
    ] = False,
    kafka: Annotated[
        str | None, typer.Option("--kafka", metavar="VERSION", help="The release whose messages it knows, 3.8.0 or newer.")
    ] = None,
    tls_client: Annotated[
        Texts, pairs("--tls-client", "Kafka's ssl.* settings of the listeners, as a broker has them; with any, clients use TLS.")
    ] = None,
    tls_broker: Annotated[
        Texts, pairs("--tls-broker", "Kafka's ssl.* settings towards brokers, as a client has them; with any, brokers use TLS.")
    ] = None,
) -> None:
    from fencepost.harness.proxy.jars import DEFAULT, classpath
    from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings
    from fencepost.harness.proxy.rules import Rule

    given = [*_rules(rules, kafka or DEFAULT), *([Rule(**FETCHES)] if fetches else [])]
    tls = {"client": _settings("--tls-client", tls_client), "broker": _settings("--tls-broker", tls_broker)}
    ports = [listen_port + number if listen_port else 0 for number in range(len(upstream))]
    hosts = {"--listen-host": listen_host, "--advertise": advertise}
    _demand(upstream, ports, control, record, hosts)
    brokers = [Broker(upstream=one, listen=f"{listen_host}:{port}") for one, port in zip(upstream, ports, strict=True)]
    settings = Settings(
        brokers=brokers, rewrite=True, advertise=advertise.strip("[]"), control=control, record=record, rules=given, tls=tls
    )
    path = classpath(kafka or DEFAULT, err().print)
    for number in (signal.SIGINT, signal.SIGTERM):  # both end it, also where a shell in the background ignores the first
        signal.signal(number, signal.default_int_handler)
    with _started(ProxyProcess(settings, path, None), settings, rules) as running:
        _announce(running, settings)
        status = _served(running)
    _show(status)


def _rules(file: Path | None, kafka: str) -> Sequence[Rule]:
    """The rules of a file. Raises CampaignError naming file, rule and key.

    kafka: the release whose names they use. What is newer than all that are known here, the proxy compares alone.
    """
    from fencepost.harness.campaign.toml import read_toml
    from fencepost.harness.proxy.names import RELEASES
    from fencepost.harness.proxy.rules import of_file, unknown

    newer = _numbers(kafka) > _numbers(RELEASES[-1])
    return of_file(read_toml(file)[0], str(file), (lambda _: []) if newer else unknown) if file else ()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(from_digits(part) for part in version.split(".") if part.isdecimal())


def _settings(option: str, texts: Texts) -> dict[str, str]:
    """Settings KEY=VALUE of Kafka's, all `ssl.*`; secrets as `env:NAME`."""
    split = [text.partition("=") for text in texts or ()]
    wrong = [text for text, (key, equals, _) in zip(texts or (), split, strict=True) if not (key.startswith("ssl.") and equals)]
    if wrong:
        raise CampaignError([f"{option} {text}: must be KEY=VALUE with a setting ssl.* of Kafka's" for text in wrong])
    return resolve({key: value for key, _, value in split})


def _demand(upstreams: Sequence[str], ports: Sequence[int], control: str, record: Path | None, hosts: Mapping[str, str]) -> None:
    """Raises CampaignError unless every broker is reached, the addresses are some, and the record can be written.

    hosts: those of options that have no port.
    """
    mistakes = [mistake for upstream in upstreams if (mistake := _unreached(upstream))]
    mistakes += [
        f"{option} {host}: must be a host name or an address alone; ports are those of --listen-port"
        for option, host in hosts.items()
        if not _is_host(host)
    ]
    if not _is_address(control, least=0):
        mistakes.append(f"--control {control}: must be HOST:PORT")
    if ports[-1] > MOST_PORT:
        mistakes.append(f"--listen-port {ports[0]}: {len(ports)} brokers need ports up to {ports[-1]}; choose a lower one")
    if record and (mistake := _unwritable(record)):
        mistakes.append(f"--record {record}: {mistake}; name another directory")
    if mistakes:
        raise CampaignError(mistakes)


def _unwritable(record: Path) -> str:
    """Why no record can be written into a directory, which is made; empty: it can."""
    if os.path.lexists(record / "proxy.jsonl"):
        return f"{record / 'proxy.jsonl'} is there already"
    try:
        record.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=record).close()
    except OSError as error:
        return f"it cannot be written ({error.strerror or error})"
    return ""


def _is_address(text: str, least: int = 1) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal() and len(port) <= MOST_DIGITS and least <= int(port) <= MOST_PORT


def _is_host(text: str) -> bool:
    return (
        is_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
        or re.fullmatch(r"[\w.-]{1,255}", text) is not None
    )


def _unreached(upstream: str) -> str:
    if not _is_address(upstream):
        return f"--upstream {upstream}: must be HOST:PORT"
    host, _, port = upstream.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, UnicodeError) as error:  # the latter of a name that is too long
        reason = getattr(error, "strerror", None) or error
        return f"--upstream {upstream}: is not reached ({reason}): is a broker running there?"
    return ""


class _started:
    """A started proxy; what it refuses of a file is said with the file's name."""

    def __init__(self, process: ProxyProcess, settings: Settings, file: Path | None) -> None:
        self._process, self._file = process, file
        self._names = tuple(f"{rule.name or f'rule {number}'}: " for number, rule in enumerate(settings.rules, 1))

    def __enter__(self) -> ProxyProcess:
        try:
            return self._process.__enter__()
        except CampaignError as error:
            texts = [f"{self._file}: {text}" if text.startswith(self._names) else text for text in error.mistakes]
            raise CampaignError(texts) from error

    def __exit__(self, *raised: Any) -> None:
        self._process.__exit__(*raised)


def _announce(running: ProxyProcess, settings: Settings) -> None:
    for broker in running.brokers:
        print_line(f"{broker['listen']} leads to {broker['upstream']}")
    fetches = any(rule.name == FETCHES["name"] for rule in settings.rules)
    rules = f"{plural(len(settings.rules), 'rule')} in force{', that of --fetches included' if fetches else ''}"
    print_line(f"http://{running.control.address}/status is its control; {rules}")
    print_line("Ctrl-C ends it")
    host = running.control.address.rpartition(":")[0]
    if not is_loopback(host):
        err().print(f"everybody who reaches {host} can set rules: --control 127.0.0.1:8474 for this machine alone")


def _served(running: ProxyProcess) -> Mapping[str, Any]:
    """Wait until it is ended; its last status."""
    status: Mapping[str, Any] = {}
    try:
        while running.is_alive():
            status = _status(running, status)
            time.sleep(LOOK_S)
    except KeyboardInterrupt:  # the way to end it
        return _status(running, status)
    if code := running.wait():
        raise ClusterError(f"the proxy has ended by itself, with exit {code}; what it said is above")
    return status


def _status(running: ProxyProcess, before: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return running.control.status()
    except ClusterError:  # it is ending
        return before


def _show(status: Mapping[str, Any]) -> None:
    """What passed, and what was caught."""
    print_line(f"{status.get('messages', 0)} messages passed, {status.get('bytes', 0)} bytes")
    rows = [
        (rule["name"], rule["rule"]["act"], str(rule["matched"]), str(rule["acted"]), (rule["last"] or {}).get("state", "-"))
        for rule in status.get("rules", ())
    ]
    if rows:
        print_table(("rule", "act", "matched", "acted", "last"), rows)
    for rule in status.get("rules", ()):
        if rule["rule"]["act"] != "record" and not rule["matched"]:
            err().print(f"{rule['name']} matched nothing: its fault did not happen")
        elif rule.get("failed"):
            why = (rule["last"] or {}).get("why")
            caught = plural(rule["acted"], "message")
            err().print(f"{rule['name']} could not act on {rule['failed']} of {caught}{f': {why}' if why else ''}")
    for row in status.get("unknown", ()):
        print_line(f"passed unread: {row['count']} of {row['api']}, version {row['version']}")
    if reason := status.get("record_error"):
        err().print(
            f"{status['record']} ends early ({reason}): what passed behind that is not in it. Make room, and record again"
        )
    if reason := status.get("last_unreached"):
        print_line(f"{plural(status['unreached'], 'connection')} had no broker: {reason}")
