"""A leader of Connect's workers whose write for a restart has failed once writes nothing more (docs/discoveries.md).

    fencepost example lost_write_privileges --kafka 4.3.0
    fencepost example lost_write_privileges --first config    # the control: the first write is another one

One Kafka broker and one distributed worker of Connect on loopback, `exactly.once.source.support=enabled`:

1. A FileStreamSource runs.
2. The leader's producer is fenced (another one with its transactional id initialises), so that its next write fails. Every other
   failure of a write does the same: a timeout, a missing permission.
3. The connector is restarted, or gets a configuration (`--first config`): 500, as this write fails.
4. For 20 s the connector is restarted and gets a configuration, again and again. Does the worker write again?

Exit code: 0 when it does, 1 when it does not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from own_offsets_topic import NAME, TOPIC, ask, running

LEADER = "connect-cluster-connect"  # the leader's transactional id (KIP-618)
RESTART = f"/connectors/{NAME}/restart?includeTasks=true"
FOR_S, WAIT_S = 20.0, 120.0
Answer = tuple[int, str]


def answer(url: str, method: str, path: str, body: Any = None) -> Answer:
    """The status and, of a refusal, the reason."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, content, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as response:
            return response.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["message"]


def fence(bootstrap: str) -> None:
    """Another producer with the leader's transactional id."""
    Producer({"bootstrap.servers": bootstrap, "transactional.id": LEADER}).init_transactions(WAIT_S)


def attempt(bootstrap: str, url: str, config: Mapping[str, str], first: str) -> bool:
    """Return whether the worker writes to its configuration topic again after its first write has failed."""
    requests: dict[str, Callable[[], Answer]] = {
        "restart": lambda: answer(url, "POST", RESTART),
        "config": lambda: answer(url, "PUT", f"/connectors/{NAME}/config", config),
    }
    ask(url, "PUT", f"/connectors/{NAME}/config", config)
    while requests["restart"]()[0] >= 300:  # until all tasks run, and the leader has claimed its privileges
        time.sleep(1)
    fence(bootstrap)
    print(first, *requests[first]())
    until = time.monotonic() + FOR_S
    while time.monotonic() < until:
        answers = {name: request() for name, request in requests.items()}
        print(f"{until - time.monotonic():4.0f} s left: {answers}")
        if all(status < 300 for status, _ in answers.values()):
            return True
        time.sleep(2)
    return False


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kafka", default="4.3.0", help="the version of the broker and of the worker")
    parser.add_argument("--first", choices=("restart", "config"), default="restart", help="the write that fails")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    given = arguments(argv)
    with tempfile.TemporaryDirectory() as folder, running(given.kafka, Path(folder)) as (bootstrap, url):
        (lines := Path(folder) / "lines.txt").write_text("one\n")
        source = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "file": str(lines)}
        config = {**source, "topic": TOPIC, "tasks.max": "1", "exactly.once.support": "required"}
        again = attempt(bootstrap, url, config, given.first)
    print(f"Kafka {given.kafka}: the worker {'writes again' if again else 'has written nothing more'}")
    return 0 if again else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
