"""Connections of our own protocol code to brokers that demand TLS or a login, by the settings of librdkafka's clients.

SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802, 7677), inside SaslHandshake and SaslAuthenticate (KIP-43, KIP-152). Certificates: PEM.
What is not spoken here (Kerberos, OAUTHBEARER, PKCS12 stores) is an error that says so.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from fencepost.clusters.kafka.protocol import Reply, WireError, exchange, string

_WAY_IN_S = 5.0
_HANDSHAKE, _AUTHENTICATE = 17, 36
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_UNREAD = ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem")


@dataclass(frozen=True)
class GuardedAddress:
    """A broker's address. settings: librdkafka's, secrets resolved."""

    host: str
    port: int
    settings: Mapping[str, Any] = field(repr=False)

    def connect(self, timeout_s: float) -> socket.socket:
        """A connection that is encrypted and logged in as the settings say.

        Raises OSError; as WireError what is refused, or not spoken here.
        """
        deadline = time.monotonic() + timeout_s
        protocol = str(self.settings.get("security.protocol", "plaintext")).lower()
        with ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection((self.host, self.port), timeout=timeout_s))
            try:
                if protocol.endswith("ssl"):
                    connection = opened.enter_context(encrypted(connection, self.host, self.settings))
                if protocol.startswith("sasl"):
                    log_in(connection, self.settings, deadline)
            except (ValueError, TypeError) as error:  # no text, no certificate, no base64
                raise WireError(f"the login or its settings cannot be read: {error}") from error
            opened.pop_all()
        return connection


def guarded_address(place: str, settings: Mapping[str, Any]) -> GuardedAddress:
    """`host:port` or `[address of IPv6]:port`."""
    host, _, port = place.rpartition(":")
    return GuardedAddress(host.strip("[]"), int(port), settings)


def no_way_in(addresses: Iterable[GuardedAddress]) -> str:
    """The reason why none of the brokers takes a connection; empty when any does."""
    problem = "there is no broker"
    for address in addresses:
        try:
            address.connect(_WAY_IN_S).close()
        except OSError as error:
            problem = f"{address.host}:{address.port}: {error}"
        else:
            return ""
    return problem


def encrypted(connection: socket.socket, host: str, settings: Mapping[str, Any]) -> ssl.SSLSocket:
    """The connection inside TLS."""
    if unread := [key for key in _UNREAD if key in settings]:
        raise WireError(f"{', '.join(unread)}: certificates of clients are read from PEM files only")
    context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem"))
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") == "https"
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate := settings.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password"))
    return context.wrap_socket(connection, server_hostname=host)


def log_in(connection: socket.socket, settings: Mapping[str, Any], deadline: float) -> None:
    """SASL with user and password."""
    mechanism = str(settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "GSSAPI").upper()
    user, password = (str(settings.get(f"sasl.{key}", "")) for key in ("username", "password"))
    if mechanism != "PLAIN" and mechanism not in _HASHES:
        raise WireError(f"sasl.mechanism {mechanism} is not spoken here: PLAIN, {' and '.join(_HASHES)} are")
    reply = exchange(connection, _HANDSHAKE, 1, string(mechanism), deadline)
    if error := reply.number(">h"):
        raise WireError(f"the broker does not take sasl.mechanism {mechanism}: error {error}")
    if mechanism == "PLAIN":
        _authenticate(connection, f"\0{user}\0{password}".encode(), deadline)
    else:
        scram = Scram(_HASHES[mechanism], user, password)
        final = scram.final(_authenticate(connection, scram.first(), deadline))
        scram.verify(_authenticate(connection, final, deadline))


def _authenticate(connection: socket.socket, token: bytes, deadline: float) -> bytes:
    reply: Reply = exchange(connection, _AUTHENTICATE, 0, struct.pack(">i", len(token)) + token, deadline)
    error, text = reply.number(">h"), reply.text()
    if error:
        raise WireError(f"the login was refused: {text or f'error {error}'}")
    return reply.take(max(0, reply.number(">i")))


@dataclass
class Scram:
    """The client's side of SCRAM without channel binding. digest: of `hashlib`."""

    digest: str
    user: str
    password: str
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _signature: bytes = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    @property
    def _bare(self) -> str:
        user = self.user.replace("=", "=3D").replace(",", "=2C")
        return f"n={user},r={self.nonce}"

    def final(self, challenge: bytes) -> bytes:
        """The answer to the server's first message. Raises WireError."""
        parts = _attributes(challenge)
        if not parts.get("r", "").startswith(self.nonce) or not parts.get("s") or not parts.get("i", "").isdigit():
            raise WireError("the broker's first message of SCRAM is not understood")
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
        without_proof = f"c=biws,r={parts['r']}"
        message = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self.digest, key).digest(), message)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self._signature = self._mac(self._mac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, answer: bytes) -> None:
        """Check that the server knows the password. Raises WireError."""
        given = base64.b64decode(_attributes(answer).get("v", ""))
        if not hmac.compare_digest(given, self._signature):
            raise WireError("the broker's signature is wrong: it does not know the password")

    def _mac(self, key: bytes, content: bytes) -> bytes:
        return hmac.digest(key, content, self.digest)


def _attributes(message: bytes) -> dict[str, str]:
    return {attribute[0]: attribute[2:] for attribute in message.decode().split(",") if attribute[1:2] == "="}
