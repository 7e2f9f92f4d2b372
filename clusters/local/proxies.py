"""The proxies before the brokers of a local cluster: a process for each broker, in the broker's own network namespace."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from fencepost.clusters.kafka.proxies import HEAP_MB
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy.jars import with_proxy
from fencepost.harness.proxy.process import ProxyProcess, Settings


def launch(run_dir: Path, node: str, settings: Settings, classpath: str, inside: AbstractContextManager[None]) -> ProxyProcess:
    """Start the proxy of a broker. inside: puts this thread into the broker's network namespace.

    Raises ClusterError, and CampaignError when the proxy refuses its settings.
    """
    with log_file(run_dir, f"{RunFile.LOGS}/{node}/proxy.log") as log, inside:
        return ProxyProcess(settings, with_proxy(classpath), log, heap_mb=HEAP_MB).__enter__()
