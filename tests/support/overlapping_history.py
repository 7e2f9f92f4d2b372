"""Small random histories of operations that overlap, write and read."""

from fencepost.harness.api import record_id

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


def overlapping_history(rng):
    """A small random history of overlapping operations that write and read; nothing in it need make sense."""
    count, partitions = rng.randint(2, 7), [f"t-{number}" for number in range(rng.randint(1, 3))]
    offsets = {partition: rng.sample(range(20), 20) for partition in partitions}
    busy, ops, sent = {}, [], []
    for number in range(count):
        process = rng.randrange(4)
        start = max(busy.get(process, 0), rng.randrange(30))
        end = start + rng.randrange(12)
        busy[process] = end + rng.randrange(2)
        type = rng.choice(["ok", "ok", "ok", "ok", "info", "fail"])
        mops = []
        for seq in range(rng.randint(0, 2)):
            partition = rng.choice(partitions)
            v, offset = record_id(process, number, seq), offsets[partition].pop()
            sent.append((partition, v, offset))
            mops.append((0, partition, v, offset if rng.random() < 0.9 else None, start, end))
        op = {"process": process, "slot": process, "op": number, "role": "writer", "final": False, "f": "txn", "type": type}
        op |= {"isolation": rng.choice([COMMITTED, COMMITTED, COMMITTED, UNCOMMITTED]), "intent": "commit", "time": start}
        cut = type == "info" and rng.random() < 0.5
        op |= {"end": None if cut else end, "decided": end, "mops": mops, "errors": [], "strange": []}
        ops.append(op)
    for op in ops:
        for partition, v, offset in rng.sample(sent, min(len(sent), rng.choice([0, 1, 1, 2, 3]))):
            op["mops"].append((1, partition, v, offset, None, op["time"] + rng.randrange(12)))
    return sorted(ops, key=lambda op: op["time"])
