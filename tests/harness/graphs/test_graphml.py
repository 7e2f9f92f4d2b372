"""Graphs as GraphML: what is read back is what was written, with its types, whatever texts there are."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import networkx as nx
from support.report_example import EVIL

from fencepost.harness.graphs.graphml import write_graphml

SPACE = "{http://graphml.graphdrawing.org/xmlns}"


def written(graph: nx.MultiDiGraph) -> bytes:
    file = io.BytesIO()
    assert write_graphml(graph, file) == graph.number_of_nodes() + graph.number_of_edges()
    return file.getvalue()


def small() -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph(run="k3f9x2")
    graph.add_node(0, f="txn", time=9_007_199_254_740_993, final=False, sent=2)
    graph.add_node(7, f="poll", time=5, final=True)
    graph.add_edge(0, 7, kind="wr", partition="t-0", low=3, judged=True)
    graph.add_edge(0, 7, kind="realtime")
    graph.add_edge(7, 0, kind="rw", partition="t-1")
    return graph


def test_what_is_read_back_is_what_was_written():
    back = nx.read_graphml(io.BytesIO(written(small())), node_type=int, force_multigraph=True)
    assert dict(back.nodes(data=True)) == dict(small().nodes(data=True))
    edges = [[(a, b, {k: v for k, v in more.items() if k != "id"}) for a, b, more in g.edges(data=True)] for g in (back, small())]
    assert edges[0] == edges[1]


def test_attributes_have_types_and_names():
    keys = {key.get("attr.name"): key.get("attr.type") for key in ElementTree.fromstring(written(small())).iter(f"{SPACE}key")}
    assert keys["time"] == "long"
    assert keys["final"] == keys["judged"] == "boolean"
    assert keys["kind"] == keys["run"] == "string"


def test_every_edge_has_an_id_of_its_own():
    ids = [edge.get("id") for edge in ElementTree.fromstring(written(small())).iter(f"{SPACE}edge")]
    assert sorted(ids) == ["e0", "e1", "e2"]


def test_characters_that_xml_lacks_are_written_as_escapes():
    """In a node's name, a partition, and the name of the run."""
    graph = nx.MultiDiGraph(run="\x00")
    graph.add_node(0, node=EVIL + "\ud83d\ufffe", transactional_id="a\tb")
    graph.add_edge(0, 0, kind="ww", partition="\x1b[31m")
    back = nx.read_graphml(io.BytesIO(written(graph)), node_type=int, force_multigraph=True)
    assert back.nodes[0]["node"].endswith("http://evil.example/\\ud83d\\ufffe")
    assert "\\u0000\\u0007" in back.nodes[0]["node"]
    assert "</script><script>" in back.nodes[0]["node"]
    assert next(iter(back.edges(data="partition")))[2] == "\\u001b[31m"


def test_an_empty_graph_is_a_document():
    assert nx.read_graphml(io.BytesIO(written(nx.MultiDiGraph()))).number_of_nodes() == 0
