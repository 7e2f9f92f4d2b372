"""A graph as GraphML, its attributes with their types: for programs that draw and measure graphs (Gephi, yEd, igraph)."""

from __future__ import annotations

import re
from typing import Any, BinaryIO

import networkx as nx

from fencepost.harness.visible_text import visible

_ID = "id"
_NO_CHARACTERS = re.compile("[\ufffe\uffff]")  # of XML, beside controls and halves of pairs


def write_graphml(graph: nx.MultiDiGraph, file: BinaryIO) -> int:
    """Write a graph; how many nodes and edges that were. Characters that XML lacks are written as escapes: `\\u0000`."""
    written = nx.MultiDiGraph(**_texts(graph.graph))
    written.add_nodes_from((node, _texts(attributes)) for node, attributes in graph.nodes(data=True))
    edges = enumerate(graph.edges(data=True))
    written.add_edges_from((source, target, {**_texts(more), _ID: f"e{number}"}) for number, (source, target, more) in edges)
    nx.write_graphml_xml(written, file, named_key_ids=True, edge_id_from_attribute=_ID)
    return int(graph.number_of_nodes() + graph.number_of_edges())


def _texts(attributes: Any) -> dict[str, Any]:
    return {name: _text(value) if isinstance(value, str) else value for name, value in attributes.items()}


def _text(text: str) -> str:
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", visible(text))
