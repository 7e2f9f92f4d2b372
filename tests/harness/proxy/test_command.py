"""`fencepost proxy` as a user gives it."""

from __future__ import annotations

import re
import threading
import time

import pytest
from support import frames
from support.ports import closed_port, free_port

from fencepost.harness.cli import main
from fencepost.harness.proxy import jars
from fencepost.harness.proxy.control import Control
from fencepost.nemesis.support.waiting import poll_until

WAIT_S = frames.PATIENCE_S


@pytest.fixture
def upstream():
    with frames.upstream() as made:
        yield made


def told(capsys, *words):
    """The exit code of the command, and what it said on both outputs."""
    with pytest.raises(SystemExit) as left:
        main.main(["proxy", *words])
    said = capsys.readouterr()
    return left.value.code, said.out + said.err


def test_a_broker_that_is_not_reached_is_named(capsys):
    port = closed_port()
    code, said = told(capsys, "--upstream", f"127.0.0.1:{port}", "--upstream", "broker")
    assert code == 254
    assert f"--upstream 127.0.0.1:{port}: is not reached (Connection refused): is a broker running there?" in said
    assert "--upstream broker: must be HOST:PORT" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--control", "garbage"), "--control garbage: must be HOST:PORT"),
        (("--control", "127.0.0.1:99999"), "--control 127.0.0.1:99999: must be HOST:PORT"),
        (("--listen-port", "65535", "--upstream", "x:1"), "--listen-port 65535: 2 brokers need ports up to 65536"),
        (("--advertise", "proxy:19092"), "--advertise proxy:19092: must be a host name or an address alone"),
        (("--advertise", ""), "--advertise : must be a host name or an address alone"),
        (("--listen-host", "0.0.0.0:1"), "--listen-host 0.0.0.0:1: must be a host name or an address alone"),
        (("--listen-host", "a b"), "--listen-host a b: must be a host name or an address alone"),
        (("--record", "/dev/null"), "--record /dev/null: it cannot be written (File exists); name another directory"),
        (("--record", "/proc/nowhere/x"), "--record /proc/nowhere/x: it cannot be written (No such file or directory)"),
        (("--upstream", f"{'a' * 300}:9092"), "is not reached (encoding with 'idna' codec failed"),
        (("--upstream", f"x:{'9' * 5000}"), "9: must be HOST:PORT"),
    ],
    ids=str,
)
def test_what_cannot_be_had_is_named_before_anything_is_started(capsys, upstream, words, sentence):
    code, said = told(capsys, "--upstream", upstream.address, *words)
    assert (code, sentence in said) == (254, True)


def test_a_mistake_in_the_rules_is_named_with_file_rule_and_key(capsys, tmp_path, upstream):
    file = tmp_path / "rules.toml"
    file.write_text('[[rule]]\nname = "a"\nact = "delay"\n')
    code, said = told(capsys, "--upstream", upstream.address, "--rules", str(file))
    assert (code, f"{file}: a: delay_ms: act delay needs it" in said) == (254, True)
    file.write_text(
        '[[rule]]\nact = "lose"\napi = "EndTxm"\n[[rule]]\nact = "lose"\napi = "EndTxn"\nwhere.comitted = true\nnht = 1\n'
    )
    code, said = told(capsys, "--upstream", upstream.address, "--rules", str(file))
    assert f"{file}: rule 1: api: Kafka has no API EndTxm; did you mean EndTxn?" in said, "all at once"
    assert f"{file}: rule 2: nht: there is no such key; did you mean nth?" in said
    assert f"{file}: rule 2: where: comitted: EndTxn has no such field in its requests; did you mean committed?" in said
    assert "3 mistakes" in said
    file.write_text("[[rule]\n")
    assert f"{file}: is not TOML" in told(capsys, "--upstream", upstream.address, "--rules", str(file))[1]


def test_settings_of_tls_and_a_former_record_are_looked_at_first(capsys, tmp_path, upstream):
    (tmp_path / "proxy.jsonl").touch()
    code, said = told(capsys, "--upstream", upstream.address, "--record", str(tmp_path))
    assert (code, "is there already; name another directory" in said) == (254, True)
    assert (
        "--tls-broker password=x: must be KEY=VALUE"
        in told(capsys, "--upstream", upstream.address, "--tls-broker", "password=x")[1]
    )
    assert "no release whose messages" in told(capsys, "--upstream", upstream.address, "--kafka", "2.8.0")[1]


@pytest.mark.cluster
def test_what_only_the_proxy_can_know_is_said_alike(capsys, tmp_path, monkeypatch, kafka_classpath, upstream):
    monkeypatch.setattr(jars, "classpath", lambda version, progress: kafka_classpath)
    file = tmp_path / "rules.toml"
    file.write_text('[[rule]]\nact = "lose"\nnode = "broker-1"\n[[rule]]\nact = "cut"\nnode = ["n5", "1"]\n')
    place = ("--upstream", upstream.address, "--control", "127.0.0.1:0")
    code, said = told(capsys, *place, "--listen-port", "0", "--rules", str(file))
    there = "there are proxy, and n with its id for each that appears in answers"
    assert (code, f"{file}: rule 1: node: no broker is broker-1; {there}" in said) == (254, True)
    assert f"{file}: rule 2: node: no broker is 1; {there}" in said, "all at once"
    port = upstream.address.rpartition(":")[2]
    assert (
        f"cannot listen at 127.0.0.1:{port}: Address already in use; choose another"
        in told(capsys, *place, "--listen-port", port)[1]
    )
    assert (
        "--tls-client: Kafka has no setting ssl.keystore; it has ["
        in told(capsys, *place, "--listen-port", "0", "--tls-client", "ssl.keystore=x")[1]
    )
    assert (
        "--tls-client: a listener needs a key and its certificate; give ssl.keystore.location, or ssl.keystore.key"
        in told(capsys, *place, "--listen-port", "0", "--tls-client", "ssl.client.auth=required")[1]
    )
    assert (
        "--tls-client: ssl.client.auth must be one of required, requested, none; did you mean required?"
        in told(capsys, *place, "--listen-port", "0", "--tls-client", "ssl.client.auth=require")[1]
    )
    assert (
        "cannot listen at nowhere.invalid:1: Unresolved address; choose another"
        in told(capsys, *place, "--listen-port", "1", "--listen-host", "nowhere.invalid")[1]
    )


@pytest.mark.cluster
def test_it_serves_until_it_is_stopped_and_says_what_was_caught(capsys, tmp_path, monkeypatch, kafka_classpath, upstream):
    monkeypatch.setattr(jars, "classpath", lambda version, progress: kafka_classpath)
    file = tmp_path / "rules.toml"
    file.write_text(
        '[[rule]]\nname = "ends"\nact = "record"\napi = "EndTxn"\n'
        '[[rule]]\nname = "never"\nact = "lose"\napi = "Produce"\n'
        '[[rule]]\nname = "same"\nact = "alter"\napi = "EndTxn"\nset.committed = true\n'
    )
    control, listener = (f"127.0.0.1:{free_port()}" for _ in range(2))
    looks, status = [], Control.status
    monkeypatch.setattr(Control, "status", lambda proxy: looks.append(status(proxy)) or looks[-1])

    def use():
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                client = frames.connected(listener)
                break
            except OSError:
                time.sleep(0.05)
        client.send(frames.end_txn(1))
        upstream.accepted().receive()
        poll_until(lambda: looks and looks[-1]["rules"][2]["failed"], bool, WAIT_S)  # the command looks, time and again
        Control(control).stop()

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    port = listener.rpartition(":")[2]
    code, said = told(capsys, "--upstream", upstream.address, "--listen-port", port, "--control", control, "--rules", str(file))
    thread.join(WAIT_S)
    assert code == 0
    assert f"{listener} leads to {upstream.address}" in said
    assert "3 rules in force" in said
    assert "never matched nothing: its fault did not happen" in said
    assert "same could not act on 1 of 1 message: set: it has these values already" in said
    assert "1 messages passed" in said
    assert re.search(r"ends +record +1 +1 +recorded", said)
