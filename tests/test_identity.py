from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwviz.identity import generation_prompt, is_unit_log
from mwviz.rollout import Call, Rollout, Span
from mwviz.runs import WINDOW
from mwviz.tokens import CallTokens, Encoding
from mwviz.tree import EvictionTree, build_tree
from tests.reference import Calls
from tests.strategies import encoded, int_array, token_calls

SAMPLES = Path(__file__).parents[2] / "shared/samples/smollm2/rollouts.jsonl"


def plain_origins(calls: Calls, tree: EvictionTree, opening: int) -> dict[int, int]:
    """Origin of every node by the written rule, trying every window of every earlier context."""
    origin = {node: node for node in range(tree.size)}
    windows: set[tuple[int, ...]] = set()
    seen: set[int] = set()
    last: int | None = None
    for call, (_, prompt, _) in enumerate(calls):
        path = tree.context(call).tolist()
        free = {i for i in range(len(prompt) - opening) if path[i] not in seen}
        claimed = {origin[node] for node in path if node in seen}
        for ending in (last, None):
            while (found := longest(path, free, windows, claimed, tree, ending)) is not None:
                start, owners = found
                origin.update(zip(path[start:], owners, strict=False))
                claimed.update(owners)
                free.difference_update(range(start, start + len(owners)))
        seen.update(path)
        owners = [origin[node] for node in path]
        windows.update(tuple(owners[i : i + WINDOW]) for i in range(len(owners) - WINDOW + 1))
        last = owners[-1] if owners else None
    return origin


def longest(
    path: list[int],
    free: set[int],
    windows: set[tuple[int, ...]],
    claimed: set[int],
    tree: EvictionTree,
    ending: int | None,
) -> tuple[int, list[int]] | None:
    """The longest run of free tokens in which every eight stood together before."""
    open_windows = [w for w in windows if not claimed.intersection(w)]
    runs: dict[tuple[int, ...], list[int]] = {}
    best: tuple[int, list[int]] | None = None
    for start in range(len(path) - WINDOW + 1):
        stretch = range(start, start + WINDOW)
        longer: dict[tuple[int, ...], list[int]] = {}
        if free.issuperset(stretch):
            ids = tree.ids[path[start : start + WINDOW]].tolist()
            for window in open_windows:
                if tree.ids[list(window)].tolist() == ids:
                    head = max(
                        (r for w, r in runs.items() if w[1:] == window[:-1]),
                        key=len,
                        default=list(window[:-1]),
                    )
                    longer[window] = [*head, window[-1]]
        runs = longer
        for window, run in runs.items():
            if ending in (None, window[-1]) and (best is None or len(run) > len(best[1])):
                best = (start + WINDOW - len(run), run)
    return best


@settings(max_examples=250, deadline=None)
@given(calls=st.sampled_from([40, 5_000]).flatmap(lambda size: token_calls(alphabet=size)))
def test_origins_equal_those_of_the_rule_tried_on_every_run(calls: Calls) -> None:
    rollout, encoding = encoded(calls)
    tree = build_tree(encoding, rollout)
    if is_unit_log(encoding):
        return
    expected = plain_origins(calls, tree, generation_prompt(encoding))
    found = tree.origin.tolist()
    # Equal runs can stand in several places; what must agree is how much was found and its text.
    assert sum(o != n for n, o in expected.items()) == sum(o != n for n, o in enumerate(found))
    assert (tree.ids[tree.origin] == tree.ids).all()


@settings(max_examples=150, deadline=None)
@given(calls=st.sampled_from([3, 40]).flatmap(lambda size: token_calls(alphabet=size)))
def test_no_context_shows_an_origin_twice_and_budgets_are_ordered(calls: Calls) -> None:
    rollout, encoding = encoded(calls)
    tree = build_tree(encoding, rollout)
    for call in range(len(calls)):
        context = tree.context(call)
        assert tree.ids[context].tolist() == calls[call][1] + calls[call][2]
        assert len(np.unique(tree.origin[context])) == len(context)
    budget = tree.budget
    assert budget["union"] <= budget["tree"] <= budget["branches"] <= budget["calls"]
    owners = tree.origin[tree.token]
    assert budget["sampled"] == len(owners) == sum(len(c) for _, _, c in calls)


def found_copies(record: dict[str, Any], *, with_spans: bool) -> tuple[int, int]:
    """(copies that found the origin of the same message and offset, all copies)."""
    calls, tokens = [], []
    for call in record["calls"]:
        prompt, completion = int_array(call["prompt_ids"]), int_array(call["completion_ids"])
        spans = message_spans(call)
        calls.append(
            Call(str(call["call"]), prompt_ids=prompt, completion_ids=completion, lineage="main")
        )
        tokens.append(CallTokens((prompt,), completion, spans if with_spans else ()))
    tree = build_tree(
        Encoding(tuple(tokens), "unknown", "recorded"), Rollout(record["id"], tuple(calls))
    )
    first: dict[tuple[str, int], int] = {}
    right = total = 0
    for index, call in enumerate(record["calls"]):
        nodes = tree.context(index)
        new = tree.first_call[tree.segment_of(nodes)] == index
        for span in message_spans(call):
            for i in range(span.start, span.end):
                origin = int(tree.origin[nodes[i]])
                known = first.setdefault((span.message, i - span.start), origin)
                if new[i] and known != nodes[i]:
                    total += 1
                    right += known == origin
    return right, total


def message_spans(call: dict[str, Any]) -> tuple[Span, ...]:
    spans = [
        Span(s["start"], s["end"], str(s["mid"]), s["role"], s["kind"]) for s in call["segments"]
    ]
    end = len(call["prompt_ids"]) + len(call["completion_ids"])
    return (*spans, Span(spans[-1].end, end, str(call["completion_mid"]), "assistant", "act"))


@pytest.mark.skipif(not SAMPLES.exists(), reason="needs the shared sample rollouts")
def test_real_copies_find_their_origin_with_spans_always_from_ids_almost_always() -> None:
    records = [json.loads(line) for line in SAMPLES.open()]
    with_spans = [found_copies(record, with_spans=True) for record in records]
    by_ids = [found_copies(record, with_spans=False) for record in records]
    assert sum(right for right, _ in with_spans) == sum(total for _, total in with_spans) > 5_000
    share = sum(right for right, _ in by_ids) / sum(total for _, total in by_ids)
    assert share >= 0.99
