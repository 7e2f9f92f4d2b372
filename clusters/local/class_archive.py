"""An archive of the classes a broker loads, so that every later broker starts in about half the time (JEP 350).

Made once per Kafka and Java version, beside the jars, by running one broker on loopback and stopping it. Java ignores
an archive that does not fit, so it can only help; where it cannot be made, brokers start without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fencepost.clusters.kafka import broker_config, node_plan, protocol, storage
from fencepost.clusters.kafka.broker_settings import broker_settings
from fencepost.clusters.kafka.distribution import Distribution, fetch
from fencepost.clusters.local import sandbox
from fencepost.harness.system.python_command import module_command

_MAKE_S = 120.0


def ensure(distribution: Distribution) -> bool:
    """Make the archive if it is not there and can be (some seconds, once); whether it is there now."""
    if not distribution.classes().exists() and os.access(distribution.directory, os.W_OK):
        argv = sandbox.command(module_command("fencepost.clusters.local.class_archive", distribution.version), loopback=True)
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as maker:
            with suppress(subprocess.TimeoutExpired):  # leaving the block ends the lifeline, and with it all that still runs
                maker.wait(_MAKE_S)
    return distribution.classes().exists()


def make(distribution: Distribution) -> None:
    """Run one broker until it serves, stop it, and store the archive of its classes."""
    (node,) = node_plan.nodes(1, 0, node_plan.loopback)
    with TemporaryDirectory(dir=distribution.directory, prefix=".classes-") as directory:
        data, config, made = Path(directory, "data"), Path(directory, "server.properties"), Path(directory, "made.jsa")
        broker_config.write_properties(
            config.parent, config.name, broker_config.properties(node, [node], broker_settings(1, {}), data / node.name)
        )
        storage.format_all(distribution.version, storage.local_tool(distribution), [node], {node.name: config}, data)
        argv = distribution.command("kafka.Kafka", [str(config)], 512, flags=[f"-XX:ArchiveClassesAtExit={made}"])
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as broker:
            while broker.poll() is None and not _serves(node):
                time.sleep(0.1)
            broker.terminate()
        if made.exists():
            made.replace(distribution.classes())


def _serves(node: broker_config.PlannedNode) -> bool:
    """Return whether the broker coordinates transactions: by then it has loaded nearly all it ever needs."""
    try:
        return protocol.find_coordinator(node.address, protocol.TRANSACTION, "fencepost") == node.id
    except OSError:
        return False


if __name__ == "__main__":
    make(fetch(sys.argv[1]))
