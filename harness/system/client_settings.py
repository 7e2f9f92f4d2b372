"""Settings of librdkafka that are judged before a run, by a client that is made of them and never used.

Some settings name what a client loads, runs, reads or asks as soon as it is made: native libraries, OpenSSL's engines and
providers, a program for Kerberos, files, the address of a token service. Reading a campaign does none of that, so no client is
made of them there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_ACTING = re.compile(
    r"plugin\..*|ssl\.(engine|provider).*|sasl\.kerberos\..*|sasl\.oauthbearer\..*|.*[._](location|file|paths?|url|cmd|uri)"
)
_ASKING = ("GSSAPI", "OAUTHBEARER")  # mechanisms that run a program or ask a service when a client is made
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OBJECTS = ("logger", "default.topic.config")  # settings of confluent-kafka alone that are objects of Python


def acting(settings: Mapping[str, Any]) -> list[str]:
    """The names of the settings that are not judged before a run."""
    return [name for name in settings if _ACTING.fullmatch(name)]


def passive(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of which a client can be made without any effect of those that name something."""
    rest = {name: value for name, value in settings.items() if not _ACTING.fullmatch(name)}
    mechanisms = [str(rest.get(name, "")).upper() for name in ("sasl.mechanism", "sasl.mechanisms")]
    if len(rest) < len(settings) or any(mechanism in _ASKING for mechanism in mechanisms):
        protocol = str(rest.get("security.protocol", "")).upper()
        return {name: value for name, value in rest.items() if name != "security.protocol" or protocol not in _PROTOCOLS}
    return rest
