"""Connections to brokers that demand a login; TLS and whole logins are in clusters/external/test_external.py, on a broker."""

from __future__ import annotations

import re
import socket
import struct
import time

import pytest
from support.fake_broker import broker

from fencepost.clusters.kafka.guarded import GuardedAddress, Scram, encrypted, guarded_address, log_in, no_way_in
from fencepost.clusters.kafka.protocol import WireError

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()


def test_scram_is_that_of_rfc_7677():
    """The exchange of its section 3."""
    scram = Scram("sha256", "user", "pencil", NONCE)
    assert scram.first() == f"n,,n=user,r={NONCE}".encode()
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert scram.final(SERVER_FIRST) == f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,".encode() + proof
    scram.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_server_that_does_not_know_the_password_is_not_believed():
    scram = Scram("sha256", "user", "pencil", NONCE)
    scram.final(SERVER_FIRST)
    with pytest.raises(WireError, match="does not know the password"):
        scram.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl94G4=")


@pytest.mark.parametrize("challenge", [b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", b"e=other-error", b""])
def test_an_answer_to_somebody_else_is_not_taken(challenge):
    with pytest.raises(WireError, match="not understood"):
        Scram("sha256", "user", "pencil", NONCE).final(challenge)


def test_signs_that_separate_are_escaped_in_a_users_name():
    assert Scram("sha512", "a=b,c", "", "n").first() == b"n,,n=a=3Db=2Cc,r=n"


def test_what_is_not_spoken_here_is_named():
    connection = socket.socket()
    with pytest.raises(WireError, match="OAUTHBEARER is not spoken here: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are"):
        log_in(connection, {"sasl.mechanism": "OAUTHBEARER"}, time.monotonic() + 1)
    with pytest.raises(WireError, match=re.escape("ssl.keystore.location: certificates of clients are read from PEM files only")):
        encrypted(connection, "localhost", {"ssl.keystore.location": "/store.p12"})


def test_a_mechanism_that_the_broker_does_not_take_is_the_reason():
    with broker(struct.pack(">hi", 33, 0)) as ((host, port), _):
        address = GuardedAddress(host, port, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"})
        assert no_way_in([address]) == f"{host}:{port}: the broker does not take sasl.mechanism PLAIN: error 33"


def test_an_answer_that_cannot_be_read_is_a_reason_and_no_crash():
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    with broker(struct.pack(">hi", 0, 0)) as ((host, port), _):  # it takes the mechanism, and then ends
        assert no_way_in([GuardedAddress(host, port, settings)]).startswith(f"{host}:{port}: ")
    with pytest.raises(WireError, match="the login or its settings cannot be read"):
        with socket.create_server(("127.0.0.1", 0)) as server:
            GuardedAddress(*server.getsockname(), {"security.protocol": "SSL", "ssl.ca.pem": "größer"}).connect(1.0)


def test_one_broker_that_answers_is_a_way_in():
    with socket.create_server(("127.0.0.1", 0)) as server:
        good = GuardedAddress(*server.getsockname(), settings={})
        assert no_way_in([GuardedAddress("127.0.0.1", 1, {}), good]) == ""
    assert no_way_in([]) == "there is no broker"


def test_addresses_of_both_kinds_are_read():
    assert guarded_address("broker:9092", {}) == GuardedAddress("broker", 9092, {})
    assert guarded_address("[::1]:9092", {}) == GuardedAddress("::1", 9092, {})
    assert "pencil" not in repr(guarded_address("b:1", {"sasl.password": "pencil"}))
