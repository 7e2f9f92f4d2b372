"""The drivers of kafkajs and @platformatic/kafka after a commit that failed: stubs of both libraries refuse every commit."""

from __future__ import annotations

import os
import shutil

import pytest

from fencepost.harness.api import CallError, ClientSettings
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import DriverProcess
from fencepost.workloads.clients.node import SOURCES

TRANSACTION = """
const transaction = () => {
  let tried = false
  return {
    commit: async () => { tried = true; throw Object.assign(new Error('socket hang up'), { name: 'Closed' }) },
    abort: async () => { if (tried && process.env.ABORT === 'fails') throw new Error('there is no transaction any more') },
    cancel: async () => {}
  }
}
"""
STUBS = {  # library: its package, its driver, and its code
    "kafkajs": (
        "kafkajs",
        "kafkajs.js",
        """
class Kafka {
  producer () { return { connect: async () => {}, transaction: async () => transaction() } }
}
module.exports = { Kafka, CompressionTypes: {}, logLevel: { WARN: 2 } }
""",
    ),
    "platformatic": (
        "@platformatic/kafka",
        "platformatic.js",
        """
class Producer {
  async beginTransaction () { return transaction() }
  async close () {}
}
module.exports = { Producer }
""",
    ),
}


@pytest.fixture(params=sorted(STUBS))
def driver(request, tmp_path):
    """The command line of a driver whose library is a stub."""
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have Node.js")
        pytest.skip("Node.js is not here")
    package, program, code = STUBS[request.param]
    home = tmp_path / "node_modules" / package
    home.mkdir(parents=True)
    (home / "package.json").write_text(
        '{"version": "0.0.0", "main": "index.js", "exports": {".": "./index.js", "./package.json": "./package.json"}}'
    )
    (home / "index.js").write_text(TRANSACTION + code)
    return [node, str(SOURCES / program), str(tmp_path)]


def failed_commit(driver, recovery):
    """A client whose first commit failed, and that commit's error."""
    producer = {"acks": "all", "transaction.timeout.ms": 15000}
    settings = ClientSettings(name="c", bootstrap="b:1", transactional_id="id", producer=producer, recovery=recovery)
    process = DriverProcess(driver)
    client = DriverClient(process, settings)
    client.open(60)
    client.begin()
    with pytest.raises(CallError, match="socket hang up") as caught:
        client.commit(60)
    return process, client, caught.value


def test_by_their_documentation_an_abort_follows_and_the_producer_goes_on(driver):
    process, client, error = failed_commit(driver, "documented")
    assert (error.unconfirmed, error.fatal, error.abortable, error.retriable) == (True, False, False, False)
    client.abort(60)
    client.begin()
    process.end()


def test_an_abort_that_fails_is_fatal_since_no_call_leads_on(driver, monkeypatch):
    monkeypatch.setenv("ABORT", "fails")
    process, client, _ = failed_commit(driver, "documented")
    with pytest.raises(CallError) as caught:
        client.abort(60)
    assert caught.value.fatal
    process.end()


def test_with_new_producers_the_commit_is_fatal(driver):
    process, _, error = failed_commit(driver, "new-producer")
    assert (error.unconfirmed, error.fatal) == (False, True)
    process.end()
