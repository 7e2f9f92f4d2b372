"""Secrets are named, looked up late, and taken out of whatever is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fencepost.harness import secrets
from fencepost.harness.api import CampaignError, ClientSettings

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n"


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    monkeypatch.setattr(secrets, "_known", set())
    monkeypatch.setattr(secrets, "_variables", set())


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.jaas.config",
    ],
)
def test_a_literal_secret_is_a_mistake_that_does_not_repeat_it(key):
    ((name, text),) = secrets.mistakes({key: "hunter2", "sasl.username": "me"})
    assert name == key
    assert "env:NAME" in text
    assert "hunter2" not in text


def test_what_is_no_secret_may_stand_in_the_file():
    open_ones = ("sasl.username", "security.protocol", "ssl.ca.location", "ssl.key.location", "ssl.ca.pem", "ssl.certificate.pem")
    assert secrets.mistakes(dict.fromkeys(open_ones, "x")) == []


def test_a_reference_must_name_something():
    wrong = secrets.mistakes({"sasl.password": "env:", "ssl.key.pem": "file:key.pem", "ssl.ca.pem": "env:A-B"})
    assert [key for key, _ in wrong] == ["sasl.password", "ssl.key.pem", "ssl.ca.pem"]
    assert secrets.mistakes({"sasl.password": "env:KAFKA_PASSWORD", "ssl.key.pem": "file:~/key.pem"}) == []


def test_references_are_looked_up_and_the_rest_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("PW", "hunter2")
    (tmp_path / "user").write_text("me\r\n")
    given = {"sasl.password": "env:PW", "sasl.username": f"file:{tmp_path}/user", "linger.ms": 5}
    assert secrets.resolve(given) == {"sasl.password": "hunter2", "sasl.username": "me", "linger.ms": 5}


def test_every_reference_that_leads_nowhere_is_reported_at_once(monkeypatch, tmp_path):
    monkeypatch.delenv("NOT_THERE", raising=False)
    monkeypatch.setenv("EMPTY", "")
    (tmp_path / "empty").write_text("\n")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 42)
    given = {"a": "env:NOT_THERE", "b": "env:EMPTY"}
    given |= {key: f"file:{tmp_path}/{name}" for key, name in zip("cdef", ("none", "empty", "pipe", "large"), strict=True)}
    with pytest.raises(CampaignError) as caught:
        secrets.resolve(given)
    assert [text.partition(": ")[2] for text in caught.value.mistakes] == [
        "the environment variable NOT_THERE is not set",
        "the environment variable EMPTY is empty",
        "the file cannot be read: No such file or directory",
        "the file is empty",
        "the file cannot be read: it is a pipe",
        "the file cannot be read: it has more than 1,048,576 bytes",
    ]


def test_what_was_read_is_masked_however_it_is_written(monkeypatch):
    """As it is, as JSON and as Python write it; a key also line by line. Names of variables are no secrets."""
    monkeypatch.setenv("PW", 'a"b\\c\u00e9')
    monkeypatch.setenv("KEY", KEY)
    monkeypatch.setenv("USER_NAME", "kafka")
    secrets.resolve({"sasl.password": "env:PW", "ssl.key.pem": "env:KEY", "sasl.username": "env:USER_NAME"})
    for written in ('a"b\\c\u00e9', json.dumps('a"b\\c\u00e9'), repr('a"b\\c\u00e9'), KEY, KEY.splitlines()[1]):
        assert secrets.MASK in secrets.mask(f"it says {written}.")
        assert "b\\" not in secrets.mask(f"it says {written}.")
        assert "MIIE" not in secrets.mask(f"it says {written}.")
    assert secrets.mask("PW USER_NAME") == "PW USER_NAME"
    assert secrets.without_secrets([{"text": 'a"b\\c\u00e9', "code": 3}]) == [{"text": "***", "code": 3}]


def test_a_value_by_reference_is_masked_whatever_its_setting_is_called(monkeypatch, tmp_path):
    """Also a number, which is masked in texts and not in the structure around them."""
    monkeypatch.setenv("TOKEN", "tok-123")
    (tmp_path / "code").write_text("4711\n")
    secrets.resolve({"some.plugin.setting": "env:TOKEN", "another": f"file:{tmp_path}/code", "plain": "visible"})
    assert secrets.mask("tok-123 4711 visible") == "*** *** visible"
    assert secrets.without_secrets({"event": "note", "at": 4711, "text": "at 4711"}) == {
        "event": "note",
        "at": 4711,
        "text": "at ***",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:hunter2@host:8081/x?y=a@b", "https://***@host:8081/x?y=a@b"),
        ("s3a://AKIA:se%2Fcret@bucket/runs, hdfs://me@nn:8020/", "s3a://***@bucket/runs, hdfs://***@nn:8020/"),
        ("abfss://container@account.dfs.core.windows.net/runs", "abfss://container@account.dfs.core.windows.net/runs"),
        ("https://host/a@b mail me@host", "https://host/a@b mail me@host"),
    ],
)
def test_user_and_password_in_urls_are_masked(text, shown):
    assert secrets.mask(text) == shown


def test_a_url_with_a_password_may_not_stand_in_a_setting():
    url = "https://me:hunter2@registry:8081"
    ((key, text),) = secrets.mistakes({"schema.registry.url": url, "plain.url": "https://registry:8081"})
    assert (key, "hunter2" in text) == ("schema.registry.url", False)
    assert secrets.mistakes({"schema.registry.url": "env:REGISTRY_URL"}) == []


def test_children_that_need_no_secret_do_not_inherit_it(monkeypatch):
    monkeypatch.setenv("PW", "hunter2")
    monkeypatch.setenv("OTHER", "x")
    assert secrets.environment_without_secrets()["PW"] == "hunter2"
    secrets.resolve({"sasl.password": "env:PW"})
    environment = secrets.environment_without_secrets()
    assert ("PW" in environment, environment["OTHER"]) == (False, "x")


def test_a_secret_that_holds_another_goes_first(monkeypatch):
    monkeypatch.setenv("SHORT", "hunter")
    monkeypatch.setenv("LONG", "hunter2hunter")
    secrets.resolve({"sasl.password": "env:SHORT", "ssl.key.password": "env:LONG"})
    assert secrets.mask("hunter2hunter hunter") == "*** ***"


def test_files_are_swept(monkeypatch, tmp_path):
    """Only those that hold it; `say` hears which."""
    monkeypatch.setenv("PW", "hunter2")
    for name in ("c0", "c1"):
        (tmp_path / name).mkdir()
    (tmp_path / "c0" / "stderr.log").write_bytes(b"\xff password hunter2\n")
    (tmp_path / "c1" / "stderr.log").write_bytes(b"nothing\n")
    heard: list[str] = []
    secrets.sweep(tmp_path.parent, tmp_path.name, heard.append)
    assert heard == []
    secrets.resolve({"sasl.password": "env:PW"})
    secrets.sweep(tmp_path.parent, tmp_path.name, heard.append)
    assert heard == [f"a secret was taken out of {tmp_path}/c0/stderr.log"]
    assert (tmp_path / "c0" / "stderr.log").read_bytes() == b"\xff password ***\n"


def test_what_ends_a_process_or_a_thread_is_reported_without_secrets():
    program = """
import threading
from fencepost.harness import secrets
pw = secrets.resolve({"sasl.password": "env:PW"})["sasl.password"]
secrets.guard()
def broken():
    raise ValueError("thread " + pw)
thread = threading.Thread(target=broken); thread.start(); thread.join()
raise ValueError("main " + pw)
"""
    done = subprocess.run([sys.executable, "-c", program], env={"PW": "hunter2"}, capture_output=True, text=True)
    assert done.returncode == 1
    assert "ValueError: thread ***" in done.stderr
    assert "ValueError: main ***" in done.stderr
    assert "hunter2" not in done.stderr


def test_clients_settings_do_not_show_themselves():
    settings = ClientSettings(name="c", bootstrap="b:1", producer={"sasl.password": "hunter2"}, consumer={"x": "hunter2"})
    assert "hunter2" not in repr(settings)
