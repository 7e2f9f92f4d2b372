"""A connection under librdkafka's names, as Kafka's Java clients take it; and the file that Java reads."""

from __future__ import annotations

import subprocess

import pytest

from fencepost.harness.connect.java_settings import java_settings, write_properties

LOGIN = 'org.apache.kafka.common.security.{} required username="{}" password="{}";'


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ({"sasl.mechanism": "PLAIN"}, "plain.PlainLoginModule"),
        ({"sasl.mechanisms": "SCRAM-SHA-512"}, "scram.ScramLoginModule"),
    ],
)
def test_a_user_with_a_password_logs_in_by_jaas(mechanism, module):
    settings = java_settings({"security.protocol": "sasl_ssl", **mechanism, "sasl.username": "u", "sasl.password": 'a"b\\c'})
    assert settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": next(iter(mechanism.values())),
        "sasl.jaas.config": LOGIN.format(module, "u", 'a\\"b\\\\c'),
    }


def test_certificates_are_given_as_pem_wherever_they_come_from(tmp_path):
    (tmp_path / "ca.pem").write_text("the authority\n")
    given = {"ssl.ca.location": str(tmp_path / "ca.pem"), "ssl.certificate.pem": "the client", "ssl.key.pem": "its key"}
    assert java_settings({**given, "ssl.key.password": "secret", "ssl.endpoint.identification.algorithm": "none"}) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "the authority\n",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "the client",
        "ssl.keystore.key": "its key",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_a_certificate_that_is_not_there_is_an_error():
    with pytest.raises(OSError, match="nowhere"):
        java_settings({"ssl.ca.location": "/nowhere"})


def test_nothing_to_connect_with_stays_nothing():
    assert java_settings({}) == {}


def test_what_means_something_in_a_file_of_properties_is_escaped(tmp_path):
    write_properties(tmp_path / "settings", {"a": 'x"\\', "b": "two\nlines", "c": " a"})
    assert (tmp_path / "settings").read_text() == 'a=x\\"\\\\\nb=two\\nlines\nc=\\ a\n'


@pytest.mark.nightly
def test_java_reads_what_was_written(tmp_path):
    settings = {"a": 'x"y\\z', "b": "two\nlines", "c": " a space before", "d": "größer 🙂", "e": "k=v #no comment"}
    write_properties(tmp_path / "settings", settings)
    (tmp_path / "Read.java").write_text(READER)
    printed = subprocess.run(["java", "Read.java", "settings"], cwd=tmp_path, capture_output=True, check=True).stdout.decode()
    assert dict(line.split("=", 1) for line in printed.split("\0")[:-1]) == settings


READER = """
import java.nio.charset.StandardCharsets;
public class Read {
    public static void main(String[] words) throws Exception {
        java.util.Properties read = new java.util.Properties();
        try (var file = new java.io.FileInputStream(words[0])) { read.load(file); }
        var out = new StringBuilder();
        read.forEach((key, value) -> out.append(key + "=" + value + "\\0"));
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }
}
"""
