from __future__ import annotations

import json
from typing import Any

import pytest

from mwviz.errors import TraceError
from mwviz.formats import read
from tests.formats.test_call_formats import FIXTURES


def contexts(record: dict[str, Any]) -> list[tuple[list[int], list[int]]]:
    (rollout,) = read(json.dumps(record).encode()).rollouts
    found = []
    for call in rollout.calls:
        assert call.prompt_ids is not None
        assert call.completion_ids is not None
        found.append((call.prompt_ids.tolist(), call.completion_ids.tolist()))
    return found


def test_hidden_tokens_are_not_in_the_prompt() -> None:
    record = json.loads((FIXTURES / "mask-spans" / "records.jsonl").read_text())
    assert contexts(record) == [
        ([5, 9, 4, 7], [40, 41]),
        ([5, 9, 4, 7, 40, 41, 50, 51], [42, 43]),
        ([5, 9, 4, 7, 42, 43, 60], [44, 45]),
    ]


def test_a_run_is_cut_where_its_view_changes() -> None:
    record = {
        "input_ids": [1, 2, 3, 4, 5],
        "loss_mask": [0, 1, 1, 1, 1],
        "mask_spans": [[0, 1, 2, 3]],
    }
    assert contexts(record) == [
        ([1], [2, 3]),
        ([3], [4, 5]),
    ]


@pytest.mark.parametrize("spans", [[[0, 1]], [[0, 1, 4]], [[0, 1, 2, 9]], [5], [["a", 1, 2, 3]]])
def test_spans_that_do_not_fit_are_reported(spans: list[Any]) -> None:
    record = {"input_ids": [1, 2, 3, 4], "mask_spans": spans}
    with pytest.raises(TraceError, match=r"expected \(l, r, L, R\) or \(l, r, e\) within 4"):
        read(json.dumps(record).encode())


@pytest.mark.parametrize("key", ["masked_spans", "2d_attention_mask"])
def test_triples_hide_from_behind_their_end_on(key: str) -> None:
    (trace,) = FIXTURES.glob("mask-spans/triples.jsonl")
    record = json.loads(trace.read_text())
    spans = json.loads((FIXTURES / "mask-spans" / "records.jsonl").read_text())
    assert contexts({**record, key: record.pop("masked_spans")}) == contexts(spans)
    bare = {"input_ids": [1, 2, 3], "loss_mask": [0, 1, 1], key: [[0, 0, 2]]}
    assert contexts(bare) == [([1], [2, 3])]


EVICTED = {
    "H_T": [5, 9, 4, 7, 40, 41, 50, 51, 42, 43, 60, 44, 45],
    "H_comp": [5, 9, 4, 7, 42, 43, 60, 44, 45],
    "response_mask": [0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1],
}


@pytest.mark.parametrize(
    "edits",
    [{"J": [10], "E": [[[4, 7]]]}, {"edits": {"J": [10, 10], "E": [[[4, 5]], [[6, 7]]]}}],
)
def test_evictions_say_the_same_as_spans(edits: dict[str, Any]) -> None:
    spans = json.loads((FIXTURES / "mask-spans" / "records.jsonl").read_text())
    assert contexts({**EVICTED, **edits}) == contexts(spans)


def test_what_is_sampled_right_at_an_eviction_no_longer_sees_it() -> None:
    record = {
        "H_T": [1, 2, 3, 4],
        "H_comp": [1, 3, 4],
        "loss_mask": [0, 0, 0, 1],
        "J": [3],
        "E": [[[1, 1]]],
    }
    assert contexts(record) == [([1, 3], [4])]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"H_comp": [5, 9]}, "H_comp is not H_T without what E names"),
        ({"response_mask": None}, "which tokens were sampled is not said"),
        ({"J": []}, "J has 0 values for 1 of E"),
        ({"E": [[[4, 7, 8]]]}, r"expected \[l, r\] before it"),
        ({"E": [[[4, 10]]]}, r"expected \[l, r\] before it"),
        ({"E": [[4]]}, r"expected \[l, r\] before it"),
    ],
)
def test_evictions_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    record = {**EVICTED, "J": [10], "E": [[[4, 7]]], **change}
    with pytest.raises(TraceError, match=message):
        read(json.dumps(record).encode())
