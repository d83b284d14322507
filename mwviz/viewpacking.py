"""The rows of views as sections of the payload: stretches, never tokens.

A view that shows each target its true context needs none, as the tree says it all; one that differs
from another in its loss alone shares that one's rows.
"""

from __future__ import annotations

import numpy as np

from mwviz.packing import Sections
from mwviz.trie import Longs
from mwviz.views import View, method_named

_COLUMNS: tuple[str, ...] = ("run_node", "run_length", "run_position", "run_until")
_COLUMNS += ("edge_query", "edge_target", "edge_count")


def told_views(views: tuple[View, ...]) -> list[dict[str, object]]:
    """What the header says of each view; `rows` names the one whose rows it shares."""
    told: list[dict[str, object]] = []
    for view in views:
        facts: dict[str, object] = {"name": view.method, "exact": _is_tree(view)}
        twin = _twin(view, views)
        told.append({**facts, "coverage": view.coverage, **({"rows": twin} if twin else {})})
    return told


def view_sections(views: tuple[View, ...]) -> Sections:
    """Rows (`NAME:run_*`, `NAME:row_*`) and edges (`NAME:edge_*`) of views that need their own."""
    sections: Sections = {}
    for view in views:
        if not _is_tree(view) and not _twin(view, views):
            sections |= _rows(view)
    return sections


def _is_tree(view: View) -> bool:
    """Whether each target sees in it what the tree says: its path, at the positions sent."""
    return method_named(view.method).exact


def _twin(view: View, views: tuple[View, ...]) -> str | None:
    """An earlier view with the same rows, whose further loss term alone differs."""
    student = method_named(view.method).student
    earlier = [other.method for other in views[: views.index(view)]]
    return student if student in earlier else None


def _rows(view: View) -> Sections:
    """Rows as runs of nodes, and edges as runs of consecutive queries and targets."""
    columns: dict[str, list[Longs]] = {name: [np.empty(0, dtype=np.int64)] for name in _COLUMNS}
    runs, edges = [], []
    for row in view.rows:
        order = np.argsort(row.edges.target, kind="stable")
        query, target = row.edges.query[order], row.edges.target[order]
        broken = (np.diff(query, prepend=-2) != 1) | (np.diff(target, prepend=-2) != 1)
        first = np.flatnonzero(broken)
        for name, part in {
            "run_node": row.first_node,
            "run_length": row.length,
            "run_position": row.first_position,
            "run_until": row.until,
            "edge_query": query[first],
            "edge_target": target[first],
            "edge_count": np.diff(first, append=len(query)),
        }.items():
            columns[name].append(part)
        runs.append(len(row.first_node))
        edges.append(len(first))
    sections: Sections = {
        f"{view.method}:{name}": np.concatenate(parts).astype(np.uint32)
        for name, parts in columns.items()
    }
    sections[f"{view.method}:row_runs"] = np.array(runs, dtype=np.uint32)
    sections[f"{view.method}:row_edges"] = np.array(edges, dtype=np.uint32)
    return sections
