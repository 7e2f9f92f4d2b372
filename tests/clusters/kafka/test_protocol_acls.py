"""The raw requests about rights, against a fake broker that speaks in literal bytes."""

import struct

import pytest
from support.fake_broker import broker, ints, text

from fencepost.clusters.kafka import protocol_acls
from fencepost.clusters.kafka.broker_config import BROKER, CLIENT, CONTROLLER, PlannedNode, properties
from fencepost.clusters.kafka.options import NO_AUTHORIZER, KafkaOptions
from fencepost.clusters.kafka.protocol import WireError
from fencepost.harness.api import Authorizing, Right

HEAD = text("fencepost")
WRITE, DENIED = Right("allow", "write", "topic", "*"), Right("deny", "read", "group", "g")
NOTHING = ints(0, 0)


def entry(resource, name, operation, permission, host=b"\x00\x01*"):
    return struct.pack(">b", resource) + text(name) + b"\x03" + text("User:u") + host + struct.pack(">bb", operation, permission)


def test_rights_are_read_with_their_resource():
    rows = text("User:u") + text("*") + b"\x04\x03" + text("User:u") + text("*") + b"\x63\x02"
    reply = ints(0) + b"\x00\x00" + text("") + ints(1) + b"\x02" + text("t") + b"\x03" + ints(2) + rows
    with broker(reply) as (address, heard):
        rights = protocol_acls.rights(address, "User:u")
    assert rights == (Right("allow", "write", "topic", "t"), Right("deny", "99", "topic", "t"))
    assert heard == [struct.pack(">hhi", 29, 1, 1) + HEAD + b"\x01\xff\xff\x01" + text("User:u") + b"\xff\xff\x01\x01"]


def test_rights_are_given_and_prohibitions_too():
    with broker(ints(0, 2) + 2 * (b"\x00\x00" + b"\xff\xff")) as (address, heard):
        protocol_acls.create(address, "User:u", [WRITE, DENIED])
    body = ints(2) + entry(2, "*", 4, 3) + entry(3, "g", 3, 2)
    assert heard == [struct.pack(">hhi", 30, 1, 1) + HEAD + body]


def test_rights_are_taken_away_whatever_the_answer_names():
    gone = b"\x00\x00\xff\xff\x02" + text("*") + b"\x03" + text("User:u") + text("*") + b"\x04\x03"
    with broker(ints(0, 1) + b"\x00\x00\xff\xff" + ints(1) + gone) as (address, heard):
        protocol_acls.delete(address, "User:u", [WRITE])
    assert heard == [struct.pack(">hhi", 31, 1, 1) + HEAD + ints(1) + entry(2, "*", 4, 3, b"\xff\xff")]


@pytest.mark.parametrize(
    ("call", "reply"),
    [
        (protocol_acls.create, ints(0, 1) + b"\x00\x36" + text("disabled")),
        (protocol_acls.delete, ints(0, 1) + b"\x00\x36" + text("disabled") + ints(0)),
    ],
)
def test_what_is_refused_is_an_error(call, reply):
    """SECURITY_DISABLED is 54: there is no authorizer."""
    with broker(reply) as (address, _), pytest.raises(WireError, match="error 54 disabled"):
        call(address, "User:u", [WRITE])


def test_clients_alone_have_to_log_in(tmp_path):
    listeners = {name: ("h", number) for number, name in enumerate((CLIENT, BROKER, CONTROLLER))}
    node = PlannedNode("n1", 1, ("broker", "controller"), listeners)
    plain, guarded = (properties(node, [node], {}, tmp_path, acls) for acls in (False, True))
    assert "authorizer.class.name" not in plain
    assert guarded["listener.security.protocol.map"] == "CLIENT:SASL_PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert guarded["super.users"] == "User:ANONYMOUS"
    assert 'user_clients="' in guarded["listener.name.client.plain.sasl.jaas.config"]


def test_without_an_authorizer_no_right_can_be_taken():
    assert KafkaOptions().missing()[Authorizing] == NO_AUTHORIZER
    assert Authorizing not in KafkaOptions(acls=True).missing()
