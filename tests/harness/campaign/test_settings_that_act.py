"""Settings that name code, programs, files or services: reading a campaign loads, runs, reads and asks none of them."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess

import pytest

from fencepost.clusters.external.provider import External
from fencepost.harness.api import CampaignError
from fencepost.harness.campaign import campaign
from fencepost.harness.campaign.client_settings import refused_settings
from fencepost.harness.planning.plan import unjudged_settings
from fencepost.harness.system.client_settings import acting, passive

LIBRARY = """
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { fclose(fopen("MARK", "w")); }
int conf_init(void *conf, void **opaque, char *error, unsigned long size) { return 0; }
int bind_engine(void *e, const char *id, void *f) { fclose(fopen("MARK", "w")); return 0; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A native library that leaves a file when it is loaded."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have a C compiler: without one nobody sees whether a library is loaded")
        pytest.skip("no C compiler here; install one (apt-get install gcc libc6-dev)")
    directory = tmp_path_factory.mktemp("library")
    source, made, mark = directory / "it.c", directory / "it.so", directory / "loaded"
    source.write_text(LIBRARY.replace("MARK", str(mark)))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    return made, mark


@pytest.fixture
def program(tmp_path):
    """A program that leaves a file when it is run."""
    made, mark = tmp_path / "kinit", tmp_path / "ran"
    made.write_text(f"#!/bin/sh\ntouch {mark}\n")
    made.chmod(0o700)
    return made, mark


def read(path, lines):
    path.write_text(f'[[test]]\nname = "a"\n{lines}')
    return campaign.read(path)


@pytest.mark.parametrize("side", ["producer", "consumer"])
@pytest.mark.parametrize(
    "settings",
    [
        {"plugin.library.paths": "LIB"},
        {"security.protocol": "ssl", "ssl.engine.location": "LIB"},
        {"security.protocol": "ssl", "ssl.providers": "LIB"},
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "ssl.engine.location": "LIB", "ssl.engine.id": "it"},
    ],
)
def test_reading_a_campaign_loads_no_library(library, tmp_path, side, settings):
    made, mark = library
    lines = "".join(f'"{name}" = "{value.replace("LIB", str(made))}"\n' for name, value in settings.items())
    loaded = (
        read(tmp_path / "it.toml", f"[test.client.{side}]\n{lines}") if side == "producer" or "acks" not in settings else None
    )
    assert not mark.exists()
    assert loaded is None or any("not checked before a run" in text for text in unjudged_settings(loaded.tests))


def test_nor_do_the_settings_of_an_external_cluster(library, tmp_path):
    made, mark = library
    options = f'[test.cluster]\nkind = "external"\nbootstrap = "a:1"\nsettings."plugin.library.paths" = "{made}"\n'
    read(tmp_path / "it.toml", options)
    assert not mark.exists()


def test_reading_a_campaign_runs_no_program(program, tmp_path):
    made, mark = program
    settings = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.kinit.cmd": str(made),
        "sasl.kerberos.keytab": "/dev/null",
    }
    assert refused_settings("producer", settings, [{}]) == []
    External(bootstrap="a:1", settings=settings)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location"])
def test_reading_a_campaign_opens_no_file(name, tmp_path):
    """A pipe would be waited for."""
    os.mkfifo(tmp_path / "pipe")
    settings = {"security.protocol": "ssl", name: str(tmp_path / "pipe")}
    assert refused_settings("producer", settings, [{}]) == []
    External(bootstrap="a:1", settings=settings)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_reading_a_campaign_asks_no_service():
    with socket.create_server(("127.0.0.1", 0)) as service:
        service.settimeout(0.3)
        settings = {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "it",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{service.getsockname()[1]}/",
        }
        assert refused_settings("producer", settings, [{}]) == []
        with pytest.raises(TimeoutError):
            service.accept()


@pytest.mark.parametrize(
    "key", ["error_cb", "stats_cb", "throttle_cb", "oauth_cb", "on_delivery", "logger", "default.topic.config"]
)
def test_a_callback_that_is_a_text_is_a_mistake_and_no_traceback(key, tmp_path):
    with pytest.raises(CampaignError) as caught:
        read(tmp_path / "it.toml", f'[test.client.producer]\n"{key}" = "print"\n')
    assert any(key in mistake for mistake in caught.value.mistakes)
    if key != "error_cb":
        with pytest.raises(CampaignError):
            External(bootstrap="a:1", settings={key: "print"})


def test_everything_else_is_judged_as_before():
    settings = {"acks": "1", "enable.idempotence": "true", "ssl.ca.location": "/a", "security.protocol": "ssl"}
    assert acting(settings) == ["ssl.ca.location"]
    assert passive(settings) == {"acks": "1", "enable.idempotence": "true"}
    assert passive({"security.protocol": "SSLL", "ssl.ca.location": "/a"}) == {"security.protocol": "SSLL"}
    [(_, text)] = refused_settings("producer", settings, [{}])
    assert "`acks` must be set to `all`" in text
    assert "No such configuration property" in refused_settings("producer", {"ssl.ca.locations": "a"}, {})[0][1]


@pytest.mark.parametrize(
    ("workload", "consumer", "words"),
    [
        ('kind = "pipeline", protocol = "consumer"', '"max.poll.interval.ms" = 8000', None),
        ('kind = "transactions"', '"max.poll.interval.ms" = 8000', None),
        ('kind = "pipeline"', '"max.poll.interval.ms" = 5000', "must be >= `session.timeout.ms`"),
        (
            'kind = "transactions"',
            '"max.poll.interval.ms" = 8000, "session.timeout.ms" = 9000',
            "must be >= `session.timeout.ms`",
        ),
        (
            'kind = "pipeline", protocol = "consumer"',
            '"session.timeout.ms" = 9000',
            "not supported for `group.protocol=consumer`",
        ),
    ],
)
def test_settings_of_consumers_that_cannot_stand_together_are_a_mistake(tmp_path, workload, consumer, words):
    text = f"workload = {{ {workload} }}\nclient = {{ consumer = {{ {consumer} }} }}"
    if words is None:
        assert read(tmp_path / "c.toml", text)
        return
    with pytest.raises(CampaignError) as caught:
        read(tmp_path / "c.toml", text)
    [mistake] = caught.value.mistakes
    assert "client.consumer: librdkafka says: Failed to create consumer" in mistake
    assert words in mistake


def test_settings_of_readers_that_are_another_client_are_not_judged_by_librdkafka(tmp_path):
    client = '{ readers = "kafka-python", consumer = { "max.poll.interval.ms" = 8000, "session.timeout.ms" = 9000 } }'
    mistakes = []
    try:
        read(tmp_path / "c.toml", f"client = {client}")
    except CampaignError as error:  # of a client that this machine cannot run
        mistakes = error.mistakes
    assert not [one for one in mistakes if "librdkafka says" in one]
