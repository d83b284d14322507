"""Batches under the names of their trainers: each is the sequence that we would write ourselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import mwviz
from mwviz.batch import Sequence, read_batch
from mwviz.errors import TraceError
from mwviz.pairs import count_pairs
from mwviz.tree import EvictionTree
from mwviz.views.own import own_view
from tests.test_own import T1, grown

NAN = float("nan")
IDS = [0, 1, 2, 8, 9, 3, 4]
MASK = [0, 0, 0, 1, 0, 1, 1]
SAMPLED = [NAN, NAN, NAN, -1.0, 0.0, -0.5, -0.25]
TRAINERS = [NAN, NAN, NAN, -1.5, 0.0, -0.75, -0.125]
ADVANTAGES = [NAN, NAN, NAN, 2.0, 2.0, 2.0, 2.0]
OURS = {
    "input_ids": IDS,
    "loss_mask": MASK,
    "logprobs": TRAINERS,
    "sampled_logprobs": SAMPLED,
    "advantages": ADVANTAGES,
}
PADDED = {"tool_mask": [1, 0, 1, 1, 1], "completion_mask": [1, 1, 1, 1, 0]}
DATUM: dict[str, Any] = {
    "model_input": {
        "chunks": [
            {"type": "encoded_text", "tokens": [0, 1]},
            {"type": "encoded_text", "tokens": [2, 8, 9, 3]},
        ]
    },
    "loss_fn_inputs": {
        "target_tokens": {"data": [1, 2, 8, 9, 3, 4], "dtype": "int64", "shape": [6]},
        "mask": {"data": [0, 0, 1, 0, 1, 1], "dtype": "float32", "shape": [6]},
        "logprobs": {"data": [0, 0, *SAMPLED[3:]], "dtype": "float32", "shape": [6]},
        "advantages": {"data": [0, 0, 2, 0, 2, 2], "dtype": "float32", "shape": [6]},
    },
}
BATCHES: dict[str, dict[str, Any]] = {
    "trl": {
        "prompt_ids": [[77, 0, 1, 2]],
        "prompt_mask": [[0, 1, 1, 1]],
        "completion_ids": [[8, 9, 3, 4, 77]],
        "completion_mask": [PADDED["completion_mask"]],
        "tool_mask": [PADDED["tool_mask"]],
        "old_per_token_logps": [[*TRAINERS[3:], 0.0]],
        "sampling_per_token_logps": [[*SAMPLED[3:], 0.0]],
        "advantages": [2.0],
    },
    "trl rollout": {
        "prompt_ids": [0, 1, 2],
        "completion_ids": [8, 9, 3, 4],
        "logprobs": SAMPLED[3:],
        "env_mask": [1, 0, 1, 1],
    },
    "verl": {
        "prompts": [[77, 0, 1, 2]],
        "responses": [[8, 9, 3, 4, 77]],
        "input_ids": [[77, 0, 1, 2, 8, 9, 3, 4, 77]],
        "attention_mask": [[0, 1, 1, 1, 1, 1, 1, 1, 0]],
        "position_ids": [[0, 0, 1, 2, 3, 4, 5, 6, 7]],
        "response_mask": [[1, 0, 1, 1, 0]],
        "old_log_probs": [[*TRAINERS[3:], 0.0]],
        "rollout_log_probs": [[*SAMPLED[3:], 0.0]],
        "advantages": [[2.0, 2.0, 2.0, 2.0, 0.0]],
    },
    "verl agent loop": {
        "prompt_ids": [0, 1, 2],
        "response_ids": [8, 9, 3, 4],
        "response_mask": [1, 0, 1, 1],
        "response_logprobs": SAMPLED[3:],
    },
    "skyrl": {
        "prompt_token_ids": [[0, 1, 2]],
        "response_ids": [[8, 9, 3, 4]],
        "loss_masks": [[1, 0, 1, 1]],
        "rollout_logprobs": [SAMPLED[3:]],
        "rewards": [1.0],
    },
    "slime": {
        "tokens": IDS,
        "response_length": 4,
        "loss_mask": [1, 0, 1, 1],
        "rollout_log_probs": SAMPLED[3:],
        "prompt": "words",
    },
    "tinker": DATUM,
    "prime-rl": {"token_ids": IDS, "mask": MASK, "logprobs": SAMPLED, "env_name": "e"},
    "prime-rl before": {
        "prompt_ids": [0, 1, 2, 8],
        "prompt_mask": [0, 0, 0, 1],
        "completion_ids": [9, 3, 4],
        "completion_mask": [0, 1, 1],
        "completion_logprobs": SAMPLED[4:],
    },
    "areal": {
        "input_ids": [IDS],
        "loss_mask": [MASK],
        "logprobs": [SAMPLED],
        "prox_logp": [TRAINERS],
        "versions": [[-1, -1, -1, 3, -1, 3, 3]],
        "attention_mask": [[1] * 7],
        "rewards": [1.0],
    },
}


def batch(path: Path, *records: dict[str, Any]) -> tuple[Sequence, ...]:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return read_batch(path)


@pytest.mark.parametrize("trainer", BATCHES)
def test_a_trainers_batch_is_the_sequence_that_it_fed(trainer: str, tmp_path: Path) -> None:
    (ours,) = batch(tmp_path / "ours.jsonl", OURS)
    (theirs,) = batch(tmp_path / "theirs.jsonl", BATCHES[trainer])
    assert theirs.ids.tolist() == ours.ids.tolist()
    assert theirs.weight.tolist() == ours.weight.tolist()
    assert theirs.until.tolist() == ours.until.tolist()
    assert theirs.query.tolist() == ours.query.tolist()
    assert np.diff(theirs.positions).tolist() == np.diff(ours.positions).tolist()
    trained = ours.weight > 0
    if trainer == "prime-rl before":
        trained[3] = False
    for name in ("logprobs", "sampled", "advantages"):
        found = getattr(theirs, name)
        if found is not None:
            assert found[trained].tolist() == getattr(ours, name)[trained].tolist(), name
    carried = {"trl", "verl", "areal"}
    assert (theirs.logprobs is not None) == (trainer in carried)
    assert theirs.sampled is not None


@pytest.mark.parametrize("trainer", [name for name in BATCHES if name != "tinker"])
def test_arrays_of_a_batch_may_stand_in_a_numpy_archive(trainer: str, tmp_path: Path) -> None:
    told = {name: np.array(value) for name, value in BATCHES[trainer].items()}
    np.savez(tmp_path / "batch.npz", allow_pickle=False, **told)
    (listed,) = batch(tmp_path / "batch.jsonl", BATCHES[trainer])
    (stored,) = read_batch(tmp_path / "batch.npz")
    assert stored.ids.tolist() == listed.ids.tolist()
    assert stored.weight.tolist() == listed.weight.tolist()


def test_padding_does_not_move_what_is_judged(tmp_path: Path) -> None:
    tree: EvictionTree = grown(T1)
    ids = [0, 1, 2, 3, 4]
    (whole,) = batch(tmp_path / "w.jsonl", {"input_ids": ids, "loss_mask": [0, 1, 1, 1, 1]})
    (padded,) = batch(
        tmp_path / "p.jsonl",
        {
            "prompt_ids": [[50, 50, 0]],
            "prompt_mask": [[0, 0, 1]],
            "completion_ids": [[1, 2, 3, 4, 50]],
            "completion_mask": [[1, 1, 1, 1, 0]],
        },
    )
    first, second = own_view(tree, (whole,), "a"), own_view(tree, (padded,), "b")
    assert second.unaligned == first.unaligned == 0
    assert second.view.coverage == first.view.coverage
    assert second.tokens == 5


def test_a_datum_without_a_mask_trains_what_has_an_advantage(tmp_path: Path) -> None:
    told = {**DATUM["loss_fn_inputs"]}
    del told["mask"]
    (read,) = batch(tmp_path / "d.jsonl", {**DATUM, "loss_fn_inputs": told})
    assert read.weight.tolist() == MASK


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({**BATCHES["slime"], "loss_mask": [1, 1]}, "expected 4 values"),
        ({**BATCHES["slime"], "response_length": 9}, "a response of 9 tokens, expected 0 to 7"),
        ({**BATCHES["slime"], "response_length": "4"}, "a response of '4' tokens"),
        ({**BATCHES["verl agent loop"], "response_ids": "words"}, "response_ids holds no numbers"),
        ({**BATCHES["verl agent loop"], "response_ids": [0.5]}, "holds no token ids"),
        ({**BATCHES["trl"], "prompt_mask": [[1]]}, "prompt_mask has shape"),
        ({**DATUM, "model_input": {"chunks": [{"tokens": [1]}]}}, "6 target_tokens for 1 tokens"),
        ({**DATUM, "model_input": "x"}, "expected model_input with chunks"),
        ({**DATUM, "model_input": {"chunks": []}}, "expected model_input with chunks"),
        (
            {**DATUM, "model_input": {"chunks": [{"tokens": [0.7, 1, 2, 8, 9, 3]}]}},
            "tokens holds no token ids",
        ),
        (
            {**DATUM, "loss_fn_inputs": {"target_tokens": [1, 2, 8, 9, 3, float("nan")]}},
            "target_tokens holds no token ids",
        ),
        (
            {
                **DATUM,
                "loss_fn_inputs": {"target_tokens": [1, 2, 7, 9, 3, 4], "mask": [0, 0, 1, 0, 1, 1]},
            },
            r"target_tokens\[2\] is not the next token",
        ),
        ({"input": "decoded", "output": "text", "score": 1.0}, "found input, output, score"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(
    wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=said):
        batch(tmp_path / "wrong.jsonl", wrong)


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("trainer", "change", "said"),
    [
        ("trl", {"advantages": [NAN]}, "sequence 1: the advantage of token 4 is nan, expected a"),
        ("trl", {"advantages": [INFINITE]}, "the advantage of token 4 is inf, expected a finite"),
        (
            "trl",
            {"old_per_token_logps": [[-1.5, 0.0, 0.25, -0.125, 0.0]]},
            "the trainer's log-probability of token 6 is 0.25, expected a number of at most 0, or",
        ),
        (
            "verl",
            {"advantages": [[2.0, 2.0, 2.0, -INFINITE, 0.0]]},
            "the advantage of token 7 is -inf, expected a finite number",
        ),
        (
            "verl",
            {"rollout_log_probs": [[INFINITE, 0.0, -0.5, -0.25, 0.0]]},
            "the log-probability when sampled of token 4 is inf",
        ),
        ("prime-rl", {"logprobs": [NAN, NAN, NAN, -1.0, 0.0, 2e-3, -1.0]}, "token 5 is 0.002"),
        ("areal", {"prox_logp": [[0, 0, 0, -1.5, 0, 1.0, -1]]}, "log-probability of token 5 is 1"),
        ("slime", {"rollout_log_probs": [-1.0, 0.0, -0.5, 3.0]}, "of token 6 is 3"),
    ],
)
def test_a_number_that_cannot_be_is_refused_with_its_token(
    trainer: str, change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=said):
        batch(tmp_path / "wrong.jsonl", {**BATCHES[trainer], **change})


def test_what_stands_where_nothing_is_trained_is_not_judged(tmp_path: Path) -> None:
    """TRL fills the log-probabilities of padding with 1; here token 9 is a tool's, 77 padding."""
    told = {
        **BATCHES["trl"],
        "old_per_token_logps": [[-1.5, 1.0, -0.75, -0.125, 1.0]],
        "sampling_per_token_logps": [[1e-4, INFINITE, NAN, -INFINITE, 1.0]],
    }
    (read,) = batch(tmp_path / "b.jsonl", told)
    assert read.logprobs is not None
    assert read.sampled is not None
    trained = read.weight > 0
    assert read.logprobs[trained].tolist() == [-1.5, -0.75, -0.125]
    assert read.sampled[trained].tolist() == pytest.approx([0, NAN, NAN], nan_ok=True, abs=0)
    first = {"input_ids": [1, 2, 3], "loss_mask": [1, 1, 1], "advantages": [NAN, 1.0, None]}
    (read,) = batch(tmp_path / "c.jsonl", first)  # nothing predicts the first token
    assert read.advantages is not None
    assert read.advantages.tolist() == pytest.approx([NAN, 1.0, NAN], nan_ok=True)


def saved(path: Path, *records: dict[str, Any]) -> Path:
    """A batch; null and NaN stay two things in every kind of file."""
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(records), path)
    else:
        path.write_text("\n".join(map(json.dumps, records)))
    return path


WHOLE = {"input_ids": IDS, "loss_mask": MASK}
HALF = {"prompt_ids": IDS[:3], "completion_ids": IDS[3:], "completion_mask": MASK[3:]}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({**WHOLE, "advantages": [None, None, None, None, None, 0.5, 2.0]}, [NAN, 0.5, 2.0]),
        ({**HALF, "advantages": [None, None, 0.5, 2.0]}, [NAN, 0.5, 2.0]),
        ({**HALF, "advantages": None}, None),
        ({**WHOLE, "advantages": None}, None),
    ],
)
def test_an_advantage_that_is_null_is_none(
    record: dict[str, Any], told: list[float] | None, suffix: str, tmp_path: Path
) -> None:
    path = saved(tmp_path / f"null{suffix}", record)
    (read,) = read_batch(path)
    trained = read.weight > 0
    if told is None:
        assert read.advantages is None
    else:
        assert read.advantages is not None
        assert read.advantages[trained].tolist() == pytest.approx(told, nan_ok=True)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_one_sequence_may_have_an_advantage_and_the_next_none(suffix: str, tmp_path: Path) -> None:
    two = ({**HALF, "advantages": 2.0}, {**HALF, "advantages": None})
    one, other = read_batch(saved(tmp_path / f"two{suffix}", *two))
    assert one.advantages is not None
    assert one.advantages[one.weight > 0].tolist() == [2.0, 2.0, 2.0]
    assert other.advantages is None


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    "record",
    [
        {**WHOLE, "advantages": [None, None, None, NAN, None, 0.5, 2.0]},
        {**HALF, "advantages": [NAN, None, 0.5, 2.0]},
    ],
)
def test_an_advantage_that_is_no_number_is_refused_in_every_file(
    record: dict[str, Any], suffix: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match="advantage of token 3 is nan, expected a finite number"):
        read_batch(saved(tmp_path / f"nan{suffix}", record))


@pytest.mark.parametrize(
    ("rows", "twice"),
    [
        ("areal-rows/rows.jsonl", 0),
        ("skyrl/batch.jsonl", 0),
        ("prime-rl/samples.jsonl", 0),
        ("verl-agent-loop/outputs.jsonl", 0),
        ("slime/samples.jsonl", 2),
    ],
)
def test_rows_agree_with_the_rollout_that_is_read_from_them(rows: str, twice: int) -> None:
    """slime's fixture trains its first call in both samples: two tokens more than once."""
    path = Path(__file__).parent / "data/formats" / rows
    (analysis,) = mwviz.load(path).analyses
    own = own_view(analysis.tree, read_batch(path), "own")
    totals = count_pairs(analysis.tree, own.view).totals
    assert (own.unaligned, own.trained_unaligned, own.trained_unsampled) == (0, 0, 0)
    assert own.view.coverage == 1.0
    assert {name for name, count in totals.items() if count} == {"agree"}
    assert (own.view.multiplicity > 1).sum() == twice
