"""Kafka's settings as arguments of the clients that are written in Python: both name them alike."""

from __future__ import annotations

from typing import Any, Mapping

ARGUMENTS = {  # where the name is not Kafka's with underscores
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
VALUES = {
    "acks": ("all", "-1", "0", "1"),
    "isolation.level": ("read_committed", "read_uncommitted"),
    "auto.offset.reset": ("earliest", "latest", "none"),
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}
REQUEST_MS = 30_000
NO_DIFFERENCE = ("linger.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "fetch.max.wait.ms", "retry.backoff.ms")


def argument(name: str) -> str:
    """The argument that a setting of Kafka's is."""
    return ARGUMENTS.get(name, name.replace(".", "_"))


def arguments(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as arguments of a client, of the types of its `defaults`; what it lacks and makes no difference is left out."""
    known = {name: value for name, value in settings.items() if argument(name) in defaults or name not in NO_DIFFERENCE}
    made = {argument(name): _value(name, value, defaults.get(argument(name))) for name, value in known.items()}
    delivery_ms = made.get("delivery_timeout_ms")
    if delivery_ms is not None and "request_timeout_ms" not in made:
        made["request_timeout_ms"] = min(REQUEST_MS, max(1, delivery_ms - made.get("linger_ms", 0)))
    return made


def refused(side: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[list[str]]:
    """The settings that a client cannot be given: lists of the side, the key and a sentence."""
    problems = [[side, name, text] for name, value in settings.items() if (text := _refusal(name, value, defaults))]
    if not problems and (text := _together(settings)):
        problems.append([side, "", text])
    return problems


def _refusal(name: str, value: Any, defaults: Mapping[str, Any]) -> str:
    if argument(name) not in defaults:
        return "" if name in NO_DIFFERENCE else "the library has no such setting"
    default = defaults[argument(name)]
    if callable(default) or isinstance(default, (list, tuple)):
        return "an object of the library, which no text can name"
    if name in VALUES and str(value) not in VALUES[name]:
        return f"{value} is none of {', '.join(VALUES[name])}"
    try:
        _value(name, value, default)
    except ValueError:
        return f"{value} is no {'truth value' if isinstance(default, bool) else 'number'}"
    return ""


def _together(settings: Mapping[str, Any]) -> str:
    delivery, request, linger = (settings.get(f"{name}.ms") for name in ("delivery.timeout", "request.timeout", "linger"))
    if delivery is not None and request is not None and float(delivery) < float(request) + float(linger or 0):
        return "delivery.timeout.ms must be at least linger.ms + request.timeout.ms"
    return ""


def _value(name: str, value: Any, default: Any) -> Any:
    """A setting as the type of the argument's default. Raises ValueError."""
    if name == "acks":
        return "all" if str(value) in ("all", "-1") else int(value)
    if isinstance(default, bool):
        if str(value).lower() not in ("true", "false"):
            raise ValueError(value)
        return str(value).lower() == "true"
    if isinstance(default, (int, float)) or name.endswith((".ms", ".bytes")):
        return int(value) if float(value) == int(float(value)) else float(value)
    return value
