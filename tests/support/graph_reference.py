"""Cycles once more, slowly and obviously: every simple cycle of the whole graph, then which classes each one belongs to.

Written from the definitions in docs/graphs.md; no points, no spans, no search.
"""

from collections import defaultdict
from functools import cache
from itertools import pairwise, product

import networkx as nx

SUFFIXES = ("", "-process", "-realtime")
CLASSES = tuple(base + suffix for base in ("G1c-wr", "G0", "G1c", "G-single", "G2") for suffix in SUFFIXES)


def edges(ops):
    """(source, target) -> kinds, from operations whose micro-operations are tuples. No complete final reads are looked at."""
    graph = defaultdict(set)
    sent = {(mop[1], mop[2]): index for index, op in enumerate(ops) for mop in op["mops"] if mop[0] == 0}
    reads = [(index, mop[1], mop[2], mop[3]) for index, op in enumerate(ops) for mop in op["mops"] if mop[0] == 1]
    for reader, partition, v, _ in reads:
        if (partition, v) in sent:
            kind = "wr" if ops[reader]["isolation"] == "read_committed" else "dirty"
            graph[sent[partition, v], reader].add(kind)
    for partition in {mop[1] for op in ops for mop in op["mops"]}:
        order = versions(ops, partition, reads)
        for (_, before), (_, after) in pairwise(order):
            graph[before, after].add("ww")
        for reader in {who for who, where, _, _ in reads if where == partition}:
            last = max(offset for who, where, _, offset in reads if (who, where) == (reader, partition))
            later = [writer for offset, writer in order if offset > last]
            if later:
                graph[reader, later[0]].add("rw")
        for (writer, low), (reader, high) in product(
            lowest(ops, partition, reads).items(), highest(ops, partition, reads).items()
        ):
            source, target = ops[writer], ops[reader]
            over = source["type"] == "ok" and source["end"] is not None and max(source["time"], source["end"]) < target["time"]
            if low < high and not over:
                graph[writer, reader].add("lso")
    for (a, first), (b, second) in product(enumerate(ops), repeat=2):
        if first["type"] == "ok" and first["end"] is not None and a != b:
            if first["end"] < second["time"]:
                graph[a, b].add("realtime")
            if first["end"] <= second["time"] and first["process"] == second["process"] and a < b:
                graph[a, b].add("process")
    return {pair: kinds for pair, kinds in graph.items() if pair[0] != pair[1]}


def lowest(ops, partition, reads):
    """Operation -> the lowest of its records that surely lies in the log: committed, at one place, not lost."""
    offsets = {}
    for v, (index, place) in placed(ops, partition, reads).items():
        got = [who for who, p, w, _ in reads if (p, w) == (partition, v)]
        proven = any(ops[who]["isolation"] == "read_committed" for who in got)
        lost = not got and any(p == partition and at > place for _, p, _, at in reads)
        if proven or (ops[index]["type"] == "ok" and not lost):
            offsets[index] = min(place, offsets.get(index, place))
    return offsets


def highest(ops, partition, reads):
    """Operation -> the highest place of what it read at read_committed."""
    there, offsets = placed(ops, partition, reads), {}
    for reader, where, v, at in reads:
        if where == partition and v in there and ops[reader]["isolation"] == "read_committed":
            offsets[reader] = max(at, offsets.get(reader, at))
    return offsets


def placed(ops, partition, reads):
    """Record -> (its writer, its place), of those at one place whose operation did not fail."""
    writers = {}
    for index, op in enumerate(ops):
        for kind, where, v, offset, *_ in op["mops"]:
            places = {at for _, p, w, at in reads if (p, w) == (partition, v)} | ({offset} - {None})
            if kind == 0 and where == partition and len(places) == 1 and op["type"] != "fail":
                writers[v] = index, min(places)
    return writers


def versions(ops, partition, reads):
    """(offset, writer) of what surely became visible, in the order of offsets; of several at one place the lowest v."""
    placed = {}
    for index, op in enumerate(ops):
        for kind, where, v, offset, *_ in sorted(op["mops"], key=lambda mop: mop[2]):
            if kind != 0 or where != partition:
                continue
            got = [(who, at) for who, p, w, at in reads if (p, w) == (partition, v)]
            proven = [at for who, at in got if ops[who]["isolation"] == "read_committed"]
            places = [*(at for _, at in got), *([offset] if offset is not None else [])]
            failed = op["type"] == "fail" or op["intent"] == "abort"
            if places and not failed and (op["type"] == "ok" or proven):
                placed.setdefault(min(places), []).append((v, index))
    return [(offset, min(who)[1]) for offset, who in sorted(placed.items())]


def shortest_cycles(ops):
    """Class -> length of its shortest cycle, for the classes that have one."""
    kinds = edges(ops)
    graph = nx.DiGraph(list(kinds))
    best = {}
    for cycle in nx.simple_cycles(graph):
        steps = [kinds[pair] for pair in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
        for name in set().union(*(classes(frozenset(chosen), chosen.count("rw")) for chosen in set(product(*steps)))):
            best[name] = min(len(cycle), best.get(name, 1000))
    return best


@cache
def classes(used, anti):
    """The classes that a cycle belongs to, by the kinds of its edges and the number of anti-dependencies among them."""
    return [name for name in CLASSES if belongs(name, used, anti)]


def belongs(name, used, anti):
    """True if a cycle of these edges is one of a class."""
    base, order = name, ""
    for suffix in SUFFIXES[1:]:
        if name.endswith(suffix):
            base, order = name.removesuffix(suffix), suffix[1:]
    allowed = {"G1c-wr": {"wr", "lso"}, "G0": {"ww"}, "G1c": {"ww", "wr", "dirty"}}.get(base, {"ww", "wr", "dirty", "rw"})
    timed = {"": set(), "process": {"process"}, "realtime": {"process", "realtime"}}[order]
    wanted = {"G-single": anti == 1, "G2": anti >= 2, "G1c": bool(used & {"wr", "dirty"})}.get(base, True)
    return used <= allowed | timed and (not order or order in used) and wanted
