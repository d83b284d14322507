from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from safetensors.numpy import save_file

import mwviz
from mwviz.batch import read_batch
from mwviz.errors import TraceError
from mwviz.pairs import count_pairs
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import Row, build_view
from mwviz.views.own import own_view
from tests.reference import Calls, Laid, Truth, judge
from tests.strategies import encoded, unit_calls

T1: Calls = [
    ("m", [0], [1, 2, 3, 4, 5, 6, 7]),
    ("m", [0, 1, 2, 3, 4, 6, 7], [8, 9, 10]),
    ("m", [0, 1, 2, 3, 4, 6, 7, 9, 10], [11, 12]),
    ("m", [0, 1, 2, 3, 4, 6, 7, 9, 10, 12], [13]),
]
Rows = dict[str, list[list[int]]]
DEMO = Path(mwviz.__file__).parent / "demo" / "tidy.jsonl"


def grown(calls: Calls) -> EvictionTree:
    rollout, encoding = encoded(calls)
    return build_tree(encoding, rollout)


def record(tree: EvictionTree, row: Row) -> dict[str, list[object]]:
    """A row as a trainer would log it: ids, positions, full mask, loss mask on the next token."""
    ids, until = row.token_ids(tree), row.visible_until
    index = np.arange(len(ids))
    mask = (index[:, None] >= index) & (index[:, None] < until)
    weight = np.zeros(len(ids))
    weight[row.edges.query + 1] = row.edges.weight
    return {
        "input_ids": ids.tolist(),
        "position_ids": row.positions.tolist(),
        "attention_mask": mask.astype(int).tolist(),
        "loss_mask": weight.tolist(),
    }


def logged(tree: EvictionTree, method: str, path: Path) -> None:
    rows = build_view(tree, method).rows
    path.write_text("".join(json.dumps(record(tree, row)) + "\n" for row in rows))


@pytest.mark.parametrize("method", ["rightmost", "replay", "logit_tree", "branch_packed"])
@settings(max_examples=60, deadline=None)
@given(calls=unit_calls())
def test_a_logged_batch_is_judged_like_the_method_that_made_it(
    method: str, calls: Calls, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = grown(calls)
    view = build_view(tree, method)
    if not view.rows or not any(row.size for row in view.rows):
        return
    path = tmp_path_factory.mktemp("own") / "batch.jsonl"
    logged(tree, method, path)
    own = own_view(tree, read_batch(path), "mine")
    assert own.unaligned == own.trained_unaligned == own.trained_unsampled == 0
    # A name for one unit that several calls sampled trains all of them; methods choose by call.
    trained = own.view.multiplicity > 0
    expected, found = count_pairs(tree, view), count_pairs(tree, own.view)
    same = trained & (view.multiplicity > 0)
    assert (trained | (view.multiplicity == 0)).all()
    assert (found.counts[same] == expected.counts[same]).all()


def test_a_packed_batch_of_real_tokens_agrees_everywhere(tmp_path: Path) -> None:
    (analysis,) = mwviz.load(DEMO).analyses
    for method in ("packed_mask", "logit_tree"):
        path = tmp_path / f"{method}.jsonl"
        logged(analysis.tree, method, path)
        own = own_view(analysis.tree, read_batch(path), "mine")
        totals = count_pairs(analysis.tree, own.view).totals
        assert own.unaligned == 0
        assert own.view.coverage == 1.0
        if method == "logit_tree":
            assert {name for name, count in totals.items() if count} == {"agree"}


def test_a_packed_row_trained_by_shift_shows_the_wrong_neighbour(tmp_path: Path) -> None:
    tree = grown([("m", [0], [1, 2]), ("m", [0], [3, 4])])
    path = tmp_path / "packed.jsonl"
    (row,) = build_view(tree, "packed_mask").rows
    told = record(tree, row)
    told["loss_mask"] = [0, 1, 1, 1, 1]
    path.write_text(json.dumps(told))
    own = own_view(tree, read_batch(path), "mine")
    pairs = count_pairs(tree, own.view)
    assert pairs.diverging.tolist() == [False, False, True, False]


def test_an_append_all_batch_shows_kept_tails_twice(tmp_path: Path) -> None:
    tree = grown(T1)
    ids = [0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10]
    path = tmp_path / "appended.jsonl"
    told = {"input_ids": ids, "loss_mask": [0] + [1] * 7 + [0, 0, 1, 1, 1]}
    path.write_text(json.dumps(told))
    own = own_view(tree, read_batch(path), "mine")
    pairs = count_pairs(tree, own.view)
    truth = Truth(T1, tree.lineage.tolist())
    laid = Laid(ids, list(range(len(ids))), [len(ids)] * len(ids))
    (row,) = own.view.rows
    for query, target in zip(row.edges.query, row.edges.target, strict=True):
        call, offset = int(tree.call[target]), int(tree.offset[target])
        expected = judge(truth, call, offset, laid, int(query))
        assert {name: int(pairs.of(name)[target]) for name in expected.counts} == expected.counts
    assert pairs.totals["duplicate"] == 6
    assert pairs.totals["stale"] == 3


def test_what_is_in_no_context_is_counted_and_moves_what_follows(tmp_path: Path) -> None:
    tree = grown(T1)
    path = tmp_path / "template.jsonl"
    ids = [99, 0, 1, 2, 98, 3]
    path.write_text(json.dumps({"input_ids": ids, "loss_mask": [0, 0, 1, 1, 1, 1]}))
    own = own_view(tree, read_batch(path), "mine")
    assert (own.tokens, own.unaligned, own.trained_unaligned) == (6, 2, 1)
    pairs = count_pairs(tree, own.view)
    assert pairs.of("shifted").sum() == 3
    assert pairs.unaligned[:4].tolist() == [1, 1, 2, 0]
    assert pairs.diverging[:4].tolist() == [True, True, True, False]


def test_a_truncated_batch_lost_its_beginning(tmp_path: Path) -> None:
    tree = grown(T1)
    path = tmp_path / "cut.jsonl"
    path.write_text(json.dumps({"input_ids": [2, 3, 4], "loss_mask": [0, 0, 1]}))
    own = own_view(tree, read_batch(path), "mine")
    pairs = count_pairs(tree, own.view)
    assert pairs.totals["lost"] == 2
    assert pairs.totals["agree"] == 2


def write_lines(path: Path, rows: Rows) -> None:
    count = len(rows["input_ids"])
    lines = [json.dumps({name: row[i] for name, row in rows.items()}) for i in range(count)]
    path.write_text("\n".join(lines))


def write_npz(path: Path, rows: Rows) -> None:
    arrays = {name: np.array(row) for name, row in rows.items()}
    np.savez(path, **arrays)  # type: ignore[arg-type]  # its stub takes the flag for an array


def write_safetensors(path: Path, rows: Rows) -> None:
    save_file({name: np.array(row) for name, row in rows.items()}, path)


def write_parquet(path: Path, rows: Rows) -> None:
    pd.DataFrame(rows).to_parquet(path)


WRITERS: dict[str, Callable[[Path, Rows], None]] = {
    ".npz": write_npz,
    ".safetensors": write_safetensors,
    ".parquet": write_parquet,
    ".jsonl": write_lines,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_kind_of_file_gives_the_same_sequences(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"batch{suffix}"
    rows = {
        "input_ids": [[5, 6, 7, 0], [8, 9, 5, 6]],
        "attention_mask": [[1, 1, 1, 0], [1, 1, 1, 1]],
        "labels": [[-100, 6, 7, -100], [-100, -100, 5, 6]],
        "document_ids": [[0, 0, 0, 0], [0, 0, 1, 1]],
    }
    WRITERS[suffix](path, rows)
    first, second = read_batch(path)
    assert first.ids.tolist() == [5, 6, 7]
    assert first.weight.tolist() == [0, 1, 1]
    assert second.until.tolist() == [2, 2, 4, 4]
    assert second.positions.tolist() == [0, 1, 0, 1]


BAD: dict[str, tuple[dict[str, object], str]] = {
    "no ids": ({"tokens": [1]}, "input_ids"),
    "no loss": ({"input_ids": [1, 2]}, "loss_mask or labels"),
    "short loss": ({"input_ids": [1, 2], "loss_mask": [1]}, "2 values"),
    "text": ({"input_ids": ["a"], "loss_mask": [1]}, "no numbers"),
    "wrong labels": ({"input_ids": [1, 2], "labels": [-100, 3]}, r"labels\[1\]"),
    "parts of ids": ({"input_ids": [1, 2.5], "loss_mask": [0, 1]}, r"input_ids\[1\] is 2\.5"),
    "ids that wrap": ({"input_ids": [1, 2**32 + 2], "loss_mask": [0, 1]}, "whole number in int32"),
    "no weight": ({"input_ids": [1, 2], "loss_mask": [0, float("nan")]}, "of token 1 is nan"),
    "negative": (
        {"input_ids": [1, 2], "loss_mask": [0, -1]},
        "token 1 is -1.0, expected one from 0",
    ),
    "short mask": (
        {"input_ids": [1, 2], "loss_mask": [0, 1], "attention_mask": [1]},
        r"attention_mask has shape \(1,\), expected 2 values",
    ),
    "seen by itself": (
        {"input_ids": [1, 2], "loss_mask": [0, 1], "predicted_from": [-1, 1]},
        r"predicted_from\[1\] is 1, expected a place before its own",
    ),
    "bounds": ({"input_ids": [1, 2], "loss_mask": [0, 1], "cu_seqlens": [0, 1]}, "rise from 0"),
    "bounds in rows": (
        {"input_ids": [1, 2], "loss_mask": [0, 1], "cu_seqlens": [[0, 2]]},
        "cu_seqlens has shape",
    ),
    "no bounds": ({"input_ids": [1, 2], "loss_mask": [0, 1], "cu_seqlens": []}, "rise from 0"),
    "one bound": ({"input_ids": [1, 2], "loss_mask": [0, 1], "cu_seqlens": [2]}, "rise from 0"),
    "bound alone": ({"input_ids": [1, 2], "loss_mask": [0, 1], "cu_seqlens": 2}, "shape"),
    "worded bounds": (
        {"input_ids": [1, 2], "loss_mask": [0, 1], "cu_seqlens": ["a"]},
        "cu_seqlens holds no numbers",
    ),
    "parts of bounds": (
        {"input_ids": [1, 2], "loss_mask": [0, 1], "cu_seqlens": [0, 0.7, 2]},
        r"cu_seqlens\[1\] is 0\.7",
    ),
    "hidden and seen": (
        {
            "input_ids": [1, 2, 3],
            "loss_mask": [0, 1, 1],
            "attention_mask": [[1, 0, 0], [0, 1, 0], [1, 1, 1]],
        },
        "seen again",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_batch_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    told, message = BAD[name]
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(told))
    with pytest.raises(TraceError, match=message) as error:
        read_batch(path)
    assert "bad.jsonl: sequence 1" in str(error.value)


def test_what_padding_holds_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "padded.jsonl"
    told = {
        "input_ids": [9, 5, 6],
        "attention_mask": [0, 1, 1],
        "loss_mask": [float("nan"), 0, 1],
        "predicted_from": [2, -1, 1],
    }
    path.write_text(json.dumps(told))
    (read,) = read_batch(path)
    assert read.ids.tolist() == [5, 6]
    assert read.weight.tolist() == [0.0, 1.0]
    assert read.query.tolist() == [-1, 0]


def test_a_record_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    other = {"input_ids": [1, 2], "loss_mask": [0, 1], "rollout": "a"}
    mine = {"input_ids": [[1, 2]], "loss_mask": [[0, 1]] * 2, "rollout": "b"}
    path.write_text("\n".join(map(json.dumps, (other, other, mine))))
    with pytest.raises(TraceError, match="record 3: loss_mask has 2 rows"):
        read_batch(path, rollout="b")


def test_another_batch_of_the_same_name_has_other_scores(tmp_path: Path) -> None:
    tree = grown(T1)
    path = tmp_path / "batch.jsonl"
    digests = set()
    for ids in ([0, 1, 2], [0, 1, 2, 3]):
        path.write_text(json.dumps({"input_ids": ids, "loss_mask": [1] * len(ids)}))
        digests.add(own_view(tree, read_batch(path), "mine").digest)
    assert len(digests) == 2


def test_text_beside_the_ids_may_hold_any_line_mark(tmp_path: Path) -> None:
    path = tmp_path / "batch.jsonl"
    told = {"input_ids": [5, 6], "loss_mask": [0, 1], "text": "a\u2028b\x85c\x0cd"}
    line = json.dumps(told, ensure_ascii=False)
    path.write_text(f"\ufeff{line}\r\n{line}\n", encoding="utf-8")
    assert [sequence.ids.tolist() for sequence in read_batch(path)] == [[5, 6]] * 2


@pytest.mark.parametrize("bounds", [[0, 2, 5], [[0, 2, 5]]])
def test_bounds_of_documents_hold_in_a_batch_of_one_row(
    bounds: list[object], tmp_path: Path
) -> None:
    path = tmp_path / "packed.jsonl"
    told = {"input_ids": [[5, 6, 5, 6, 7]], "loss_mask": [[0, 1, 0, 1, 1]], "cu_seqlens": bounds}
    path.write_text(json.dumps(told))
    (only,) = read_batch(path)
    assert only.until.tolist() == [2, 2, 5, 5, 5]
    assert only.positions.tolist() == [0, 1, 0, 1, 2]


@pytest.mark.parametrize(
    ("name", "value", "rows"),
    [
        ("cu_seqlens", [0, 4], 1),
        ("position_ids", [[[0, 1]] * 2] * 3, 3),
        ("attention_mask", [[1, 1]], 1),
        ("labels", [[1, 2]], 1),
    ],
)
def test_an_array_of_other_rows_than_the_ids_is_refused_by_name(
    name: str, value: object, rows: int, tmp_path: Path
) -> None:
    path = tmp_path / "batch.jsonl"
    told = {"input_ids": [[1, 2]] * 2, "loss_mask": [[0, 1]] * 2, "note": [1, 2, 3], name: value}
    path.write_text(json.dumps(told))
    with pytest.raises(TraceError, match=f"{name} has {rows} rows, expected 2, as the ids have"):
        read_batch(path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".parquet", ".jsonl"])
def test_a_file_of_noise_is_refused_in_a_line(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(TraceError, match="noise") as error:
        read_batch(path)
    assert "allow_pickle" not in str(error.value)


def test_a_token_of_two_calls_shares_its_weight(tmp_path: Path) -> None:
    tree = grown([("m", [0], [1, 2]), ("m", [0], [1, 3])])
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps({"input_ids": [0, 1, 2], "loss_mask": [0, 2, 1]}))
    edges = own_view(tree, read_batch(path), "mine").view.rows[0].edges
    trained = dict(zip(edges.target.tolist(), edges.weight.tolist(), strict=True))
    assert trained == {0: 1.0, 1: 1.0, 2: 1.0}


def test_a_token_export_of_prime_rl_is_read_under_its_own_names(tmp_path: Path) -> None:
    tree = grown(T1)
    path = tmp_path / "rank_0.jsonl"
    told = {
        "schema_version": 1,
        "token_ids": [0, 1, 2, 3],
        "position_ids": [0, 1, 2, 3],
        "loss_mask": [False, True, True, True],
        "advantages": [None, 0.5, 0.5, None],
        "trainer_logprobs": [0.0, -1.0, -2.0, -3.0],
        "inference_logprobs": [0.0, -1.5, -2.5, None],
    }
    path.write_text(json.dumps(told))
    own = own_view(tree, read_batch(path), "mine")
    assert own.unaligned == 0
    assert own.logprob[:4].tolist()[:3] == [-1.0, -2.0, -3.0]
    assert own.sampled[:2].tolist() == [-1.5, -2.5]
    assert own.advantage[:2].tolist() == [0.5, 0.5]
    for column in (own.logprob[3:], own.sampled[2:], own.advantage[2:]):
        assert np.isnan(column).all()
