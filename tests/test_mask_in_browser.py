"""The mask as the browser classifies it, against the token-level reference in Python."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from mwviz.errors import ViewError
from mwviz.junctions import find_junctions
from mwviz.payload import KINDS, Contents, node_kinds, pack_contents
from mwviz.semantics import Taken
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import METHODS, View, build_view
from mwviz.windows import NAMES, class_window
from tests.reference import Calls
from tests.strategies import encoded, token_calls, treated, unit_calls

SCRIPT = Path(__file__).parent / "frontend" / "cells.mjs"
VIEWS = tuple(method.name for method in METHODS)
DROPPED: Calls = [
    ("main", [1, 2, 3], [4, 5]),
    ("main", [1, 2, 3, 4, 5, 6], [7, 8]),
    ("main", [1, 4, 5, 6, 7, 8, 9], [10, 11]),
]
"""A middle stretch leaves; a cache would keep the rest where it stood."""
MOVED: Calls = [
    ("main", [0], [1, 2]),
    ("main", [0, 1, 3, 2], []),
]
"""What was sampled last stands behind another token later."""
THRICE: Calls = [
    ("main", [0], [1, 2, 3, 4]),
    ("main", [0, 2, 3, 4, 5], [6, 7]),
    ("main", [0, 3, 4, 5, 6, 7], [8, 9]),
    ("main", [0, 5, 6, 7, 8, 9], [10]),
]
"""Three drops in one lineage."""
AGENTS: Calls = [
    ("a", [0, 1, 2], [3, 4]),
    ("b", [0, 3, 4, 5], [6]),
    ("a", [0, 2, 3, 4, 6], [7, 8]),
    ("b", [0, 4, 5, 6, 7, 8], [9, 10]),
]
"""Two agents with a cache each, which read each other's text and evict."""


def able(tree: EvictionTree, method: str) -> bool:
    """Whether a method can lay the tree out; some refuse by name."""
    try:
        build_view(tree, method)
    except ViewError:
        return False
    return True


logs = st.lists(
    st.tuples(
        st.one_of(unit_calls(), token_calls(alphabet=40)),
        st.sampled_from(["re_prefill", "kv_orig", "mixed"]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(rollouts=logs)
@example(rollouts=[(DROPPED, "kv_orig"), (DROPPED, "re_prefill"), (MOVED, "re_prefill")])
@example(rollouts=[(AGENTS, "kv_orig"), (AGENTS, "re_prefill"), (AGENTS, "mixed")])
@example(rollouts=[(THRICE, "mixed"), (THRICE, "kv_orig")])
def test_browser_gives_every_cell_and_node_what_python_gives(
    rollouts: list[tuple[Calls, Taken]],
) -> None:
    assume(all(any(prompt or reply for _, prompt, reply in calls) for calls, _ in rollouts))
    asked, expected, kinds, trained_once, rows = [], [], [], [], []
    for calls, semantics in rollouts:
        tree, views, payload = made(calls, semantics)
        asked.append({"payload": base64.b64encode(payload).decode(), "views": list(views)})
        targets, keys = range(len(tree.token)), range(len(tree.birth))
        expected.append(
            {name: class_window(tree, view, targets, keys).cells for name, view in views.items()}
        )
        kinds.append([KINDS[kind] for kind in node_kinds(tree)])
        trained_once.append({name: view.multiplicity <= 1 for name, view in views.items()})
        rows.append({name: laid_out(view) for name, view in views.items()})
    told = subprocess.run(
        ["node", str(SCRIPT)], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    answers = json.loads(told.stdout)
    assert [answer["kinds"] for answer in answers] == kinds
    for answer, laid in zip(answers, rows, strict=True):
        wrong = {name: packed["wrong"] for name, packed in answer["packed"].items()}
        assert wrong == dict.fromkeys(laid, 0)
        assert {name: packed["rows"] for name, packed in answer["packed"].items()} == laid
    for answer, truth, once in zip(answers, expected, trained_once, strict=True):
        for name, cells in truth.items():
            names = ["none" if cell == "untrained" else cell for cell in answer["cells"][name]]
            shown = np.array([NAMES.index(cell) for cell in names], dtype=np.uint8)
            np.testing.assert_array_equal(shown.reshape(cells.shape)[once[name]], cells[once[name]])


def laid_out(view: View) -> list[list[list[int]]]:
    """Of each row: its nodes, until when each is seen, and the (query, target) pairs in order."""
    return [
        [
            row.nodes.tolist(),
            row.visible_until.tolist(),
            *sorted(
                [int(q), int(t)] for q, t in zip(row.edges.query, row.edges.target, strict=True)
            ),
        ]
        for row in view.rows
    ]


def made(calls: Calls, semantics: Taken) -> tuple[EvictionTree, dict[str, View], bytes]:
    """The tree of some calls, every view that can lay it out, and the payload of all."""
    rollout, encoding = encoded(calls)
    rollout = treated(rollout, semantics)
    tree = build_tree(encoding, rollout)
    views = {name: build_view(tree, name) for name in VIEWS if able(tree, name)}
    contents = Contents(
        tree=tree,
        token_text=lambda token: str(token).encode(),
        encoding=encoding,
        junctions=find_junctions(tree, encoding, rollout),
        views=tuple(views.values()),
    )
    return tree, views, pack_contents(contents)


def test_a_kept_cache_makes_other_layouts_see_at_other_distances() -> None:
    _, views, payload = made(DROPPED, "kv_orig")
    assert {"union_mask", "packed_mask"} <= set(views)
    asked = [{"payload": base64.b64encode(payload).decode(), "views": list(views)}]
    told = subprocess.check_output(["node", str(SCRIPT)], input=json.dumps(asked), text=True)
    cells = json.loads(told)[0]["cells"]
    assert "shifted" in cells["packed_mask"]
    assert "shifted" not in cells["union_mask"]
