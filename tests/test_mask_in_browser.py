"""The mask as the browser classifies it, against the token-level reference in Python."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mwviz.errors import ViewError
from mwviz.junctions import find_junctions
from mwviz.payload import Contents, pack_contents
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import METHODS, build_view
from mwviz.windows import NAMES, class_window
from tests.reference import Calls
from tests.strategies import encoded, token_calls, unit_calls

SCRIPT = Path(__file__).parent / "frontend" / "cells.mjs"
VIEWS = tuple(method.name for method in METHODS)


def able(tree: EvictionTree, method: str) -> bool:
    """Whether a method can lay the tree out; some refuse by name."""
    try:
        build_view(tree, method)
    except ViewError:
        return False
    return True


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(rollouts=st.lists(st.one_of(unit_calls(), token_calls(alphabet=40)), min_size=1, max_size=8))
def test_browser_gives_every_cell_the_class_that_python_gives(rollouts: list[Calls]) -> None:
    asked, expected, trained_once = [], [], []
    for calls in rollouts:
        rollout, encoding = encoded(calls)
        tree = build_tree(encoding, rollout)
        views = {name: build_view(tree, name) for name in VIEWS if able(tree, name)}
        payload = pack_contents(
            Contents(
                tree=tree,
                token_text=lambda token: str(token).encode(),
                encoding=encoding,
                junctions=find_junctions(tree, encoding, rollout),
                views=tuple(views.values()),
            )
        )
        asked.append({"payload": base64.b64encode(payload).decode(), "views": list(views)})
        targets, keys = range(len(tree.token)), range(len(tree.birth))
        expected.append(
            {name: class_window(tree, view, targets, keys).cells for name, view in views.items()}
        )
        trained_once.append({name: view.multiplicity <= 1 for name, view in views.items()})
    told = subprocess.run(
        ["node", str(SCRIPT)], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    for answer, truth, once in zip(json.loads(told.stdout), expected, trained_once, strict=True):
        for name, cells in truth.items():
            names = ["none" if cell == "untrained" else cell for cell in answer[name]]
            shown = np.array([NAMES.index(cell) for cell in names], dtype=np.uint8)
            np.testing.assert_array_equal(shown.reshape(cells.shape)[once[name]], cells[once[name]])
