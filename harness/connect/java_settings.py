"""Connection settings of Kafka's Java clients, from librdkafka's names; and a file of settings as Java reads it.

PEM certificates: KIP-651, from Kafka 2.7 on. Format of the file: java.util.Properties.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_LOGIN = "org.apache.kafka.common.security.{}LoginModule required username={} password={};"
_PEM = {  # librdkafka's name: Java's; of `.location` the file's content is meant
    "ssl.ca": ("ssl.truststore.type", "ssl.truststore.certificates"),
    "ssl.certificate": ("ssl.keystore.type", "ssl.keystore.certificate.chain"),
    "ssl.key": ("ssl.keystore.type", "ssl.keystore.key"),
}
_SASL = {"sasl.username", "sasl.password", "sasl.mechanism", "sasl.mechanisms"}
_REPLACED = _SASL | {f"{name}.{end}" for name in _PEM for end in ("location", "pem")}


def java_settings(connection: Mapping[str, str]) -> dict[str, str]:
    """The connection by the names of Kafka's Java clients; settings of the same name stay.

    Raises OSError for a certificate or key that cannot be read.
    """
    alike = {key: str(value) for key, value in connection.items() if key not in _REPLACED}
    if "security.protocol" in alike:
        alike["security.protocol"] = alike["security.protocol"].upper()
    if alike.get("ssl.endpoint.identification.algorithm") == "none":
        alike["ssl.endpoint.identification.algorithm"] = ""
    return {**alike, **_login(connection), **_certificates(connection)}


def _login(connection: Mapping[str, str]) -> dict[str, str]:
    mechanism = connection.get("sasl.mechanism") or connection.get("sasl.mechanisms")
    named = {"sasl.mechanism": mechanism} if mechanism else {}
    if "sasl.username" not in connection:
        return named
    module = "plain.Plain" if mechanism in (None, "PLAIN") else "scram.Scram"
    user, password = (_quoted(connection.get(f"sasl.{key}", "")) for key in ("username", "password"))
    return {**named, "sasl.jaas.config": _LOGIN.format(module, user, password)}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _certificates(connection: Mapping[str, str]) -> dict[str, str]:
    certificates: dict[str, str] = {}
    for name, (kind, key) in _PEM.items():
        path = connection.get(f"{name}.location")
        if text := connection.get(f"{name}.pem") or (Path(path).read_text() if path else ""):
            certificates |= {kind: "PEM", key: text}
    return certificates


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """A file of settings that only its owner reads. Raises OSError."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in settings.items()))


def _escaped(value: str) -> str:
    """JSON's escapes are those of java.util.Properties, which ignores a space at the beginning."""
    escaped = json.dumps(value)[1:-1]
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
