"""The answer to a commit is lost; the transaction must be in the log once. It needs nothing of fencepost but the running proxy.

fencepost example one_broker                                           # or brokers of yours
fencepost proxy --upstream 127.0.0.1:9092
fencepost example lost_commit 127.0.0.1:19092 127.0.0.1:8474 orders    # or python lost_commit.py ...
"""

import json
import sys
import uuid
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, Producer


def ask(control, method, path, body=None):
    """A request to the proxy; its answer."""
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"http://{control}{path}", content, method=method), timeout=60) as answer:
        return json.load(answer)


def committed(bootstrap, transactional_id, topic, value):
    """A transaction of one record."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value)
    producer.commit_transaction(30)


def copies(bootstrap, topic, value):
    """The number of records with a value that a reader of committed ones sees."""
    group = {"group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    reader = Consumer({"bootstrap.servers": bootstrap, "enable.partition.eof": True, **group})
    reader.subscribe([topic])
    count, ended = 0, set()
    while not reader.assignment() or len(ended) < len(reader.assignment()):
        message = reader.poll(1)
        if message is not None and message.error():
            ended.add(message.partition())
        elif message is not None:
            count += message.value() == value
    reader.close()
    return count


def main(bootstrap="", control="", topic=""):
    if not topic:
        sys.exit("give the proxy's bootstrap server, its control and a topic, as above: 127.0.0.1:19092 127.0.0.1:8474 orders")
    value = uuid.uuid4().hex.encode()
    name = f"lost-commit-{value.decode()}"
    rule = {"name": name, "api": "EndTxn", "where": {"committed": True}, "transactional_id": name, "act": "lose", "nth": 1}
    number = ask(control, "POST", "/rules", rule)["number"]
    committed(bootstrap, name, topic, value)
    (caught,) = ask(control, "GET", f"/rules/{number}/wait?timeout_ms=10000")
    ask(control, "DELETE", f"/rules/{number}")
    assert caught["state"] == "lost", caught
    assert copies(bootstrap, topic, value) == 1
    print(f"the answer to EndTxn {caught['correlation']} was lost, and the record is there once")


if __name__ == "__main__":
    main(*sys.argv[1:])
