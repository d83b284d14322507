from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import LlamaConfig

import mwviz
from mwviz.batch import read_batch
from mwviz.cli import main
from mwviz.engine.losses import backward
from mwviz.engine.model import wrap
from mwviz.engine.packed import load_packed, packed_loss, to_block_mask
from mwviz.errors import TraceError
from mwviz.exports.shapes import shaped
from mwviz.formats.mwviz1_writer import write
from mwviz.pairs import count_pairs
from mwviz.views.own import own_view
from tests.engine.tiny import module_of

CASES = Path(__file__).parents[1] / "data" / "cases"
TRACES = {
    "running example": CASES / "vector-1-running-example" / "calls.jsonl",
    "rewind": CASES / "vector-4-rewind" / "calls.jsonl",
    "summary and tail": CASES / "vector-3-summary-tail" / "calls.jsonl",
    "real tokens": Path(mwviz.__file__).parent / "demo" / "busy.jsonl",
}


@pytest.mark.parametrize("kind", ["packed", "branches", "verl", "trl", "prime-rl"])
@pytest.mark.parametrize("name", TRACES)
def test_an_export_loads_as_a_batch_that_agrees_everywhere(
    name: str, kind: str, tmp_path: Path
) -> None:
    out = tmp_path / ("out.safetensors" if kind == "packed" else "out.jsonl")
    assert main(["convert", str(TRACES[name]), str(out), "--as", kind]) == 0
    (analysis,) = mwviz.load(TRACES[name]).analyses
    own = own_view(analysis.tree, read_batch(out), "mine")
    totals = count_pairs(analysis.tree, own.view).totals
    assert {key for key, count in totals.items() if count} == {"agree"}
    assert own.view.coverage == 1.0
    assert set(own.view.multiplicity.tolist()) == {1}
    assert own.unaligned == 0


def sample(**changes: Any) -> dict[str, Any]:
    """Four tokens of a branch, of which the second and the last were sampled."""
    return {
        "rollout": "r",
        "branch": 0,
        "input_ids": [5, 6, 7, 8],
        "loss_mask": [0.0, 1.0, 0.0, 1.0],
        "logprobs": [None, -0.5, None, -0.25],
        "temperatures": [None, 0.7, None, 0.7],
        "reward": 1.0,
        "tokenizer": "t",
        "rendering": "recorded",
        **changes,
    }


def test_a_sample_has_the_fields_that_the_trainers_ask_for() -> None:
    verl, trl, prime = (shaped(sample(), shape) for shape in ("verl", "trl", "prime-rl"))
    assert (verl["prompt_ids"], verl["response_ids"]) == ([5], [6, 7, 8])
    assert verl["response_mask"] == trl["env_mask"] == [1, 0, 1]
    assert verl["response_logprobs"] == trl["logprobs"] == [-0.5, 0.0, -0.25]
    assert verl["metrics"] == {}  # of its required fields the one that has nothing to say
    assert prime["token_ids"] == [5, 6, 7, 8]
    assert prime["mask"] == [False, True, False, True]
    assert prime["logprobs"] == [0.0, -0.5, 0.0, -0.25]
    assert prime["temperatures"] == [1.0, 0.7, 1.0, 0.7]


@pytest.mark.parametrize("shape", ["verl", "trl", "prime-rl"])
def test_what_was_not_recorded_is_null_and_no_number(shape: str) -> None:
    changed = sample(logprobs=[None, -0.5, None, None], temperatures=[None] * 4)
    row = shaped(changed, shape)
    names = ("response_logprobs", "logprobs", "temperatures")
    assert {row[name] for name in names if name in row} == {None}


def test_missing_log_probabilities_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(TRACES["summary and tail"])
    assert main(["convert", trace, str(tmp_path / "out.jsonl"), "--as", "verl"]) == 0
    assert "without a recorded log-probability: null in the file" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["branches", "verl", "trl", "prime-rl"])
def test_samples_of_several_rollouts_are_judged_each_in_its_own(kind: str, tmp_path: Path) -> None:
    traces = [mwviz.load(TRACES[name]).rollouts[0] for name in ("running example", "rewind")]
    own, out = tmp_path / "own.jsonl", tmp_path / "out.jsonl"
    write([replace(rollout, id=f"run-{at}") for at, rollout in enumerate(traces)], own)
    assert main(["convert", str(own), str(out), "--as", kind]) == 0
    for analysis in mwviz.load(own).analyses:
        name = analysis.add_batch(out).view.method
        totals = analysis.pairs(name).totals
        assert {key for key, count in totals.items() if count} == {"agree"}
        assert set(analysis.view(name).multiplicity.tolist()) == {1}


def test_a_packed_file_that_cannot_be_written_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "nowhere" / "out.safetensors"
    assert main(["convert", str(TRACES["rewind"]), str(out), "--as", "packed"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_mask_cannot_count_a_token_twice() -> None:
    sample = {"rollout": "r", "branch": 0, "input_ids": [1, 2], "loss_mask": [0.0, 2.0]}
    with pytest.raises(TraceError, match="a token was sampled by 2 calls"):
        shaped(sample, "verl")


def test_the_loss_of_an_exported_row_is_the_librarys(tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    assert main(["convert", str(TRACES["rewind"]), str(out), "--as", "packed"]) == 0
    batch = load_packed(out)
    module = module_of(
        LlamaConfig(
            vocab_size=64,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
        )
    )
    size = len(batch["input_ids"])
    index = torch.arange(size)
    seen = (index[None] <= index[:, None]) & (index[:, None] < batch["visible_until"][None])
    mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]
    logits = module(
        input_ids=batch["input_ids"][None].long(),
        position_ids=batch["position_ids"][None],
        attention_mask=mask,
    ).logits[0]
    (analysis,) = mwviz.load(TRACES["rewind"]).analyses
    expected = backward(
        analysis.tree, analysis.view("logit_tree"), wrap(module, name="m", revision="0")
    )
    assert float(packed_loss(logits, batch)) == pytest.approx(expected, abs=1e-5)


def test_the_block_mask_is_the_interval_mask(tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    assert main(["convert", str(TRACES["real tokens"]), str(out), "--as", "packed"]) == 0
    batch = load_packed(out)
    mask = to_block_mask(batch)
    until = batch["visible_until"].numpy()
    blocks = mask.to_dense()[0, 0].numpy().astype(bool)
    width = mask.BLOCK_SIZE[0]
    index = np.arange(len(until))
    seen = (index[None] <= index[:, None]) & (index[:, None] < until[None])
    for q, k in np.ndindex(blocks.shape):
        part = seen[q * width : (q + 1) * width, k * width : (k + 1) * width]
        assert blocks[q, k] == part.any()


def test_several_rollouts_do_not_fit_one_packed_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.jsonl"
    line = '{"rollout": "%s", "prompt_ids": [1], "completion_ids": [2]}\n'
    path.write_text(line % "a" + line % "b")
    assert main(["convert", str(path), str(tmp_path / "x.safetensors"), "--as", "packed"]) == 2
    assert "2 rollouts, expected one" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "rendering"), [("chat", "neutral"), ("rewind", "recorded")])
def test_rendered_ids_are_not_passed_off_as_sampled(
    name: str, rendering: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = CASES.parent / "formats" / "openai-chat" / "log.jsonl"
    trace = str(TRACES.get(name, chat))
    tokenizer = mwviz.load(trace).analyses[0].encoding.tokenizer
    for kind in ("packed", "branches", "verl", "trl", "prime-rl"):
        out = tmp_path / ("out.safetensors" if kind == "packed" else "out.jsonl")
        assert main(["convert", trace, str(out), "--as", kind]) == 0
        assert ("are not those that were sampled" in capsys.readouterr().err) == (name == "chat")
        if kind == "packed":
            with safe_open(out, "np") as file:
                told = file.metadata()
        else:
            record = json.loads(out.read_text().splitlines()[0])
            told = record.get("extra_fields", record)
        assert told["rendering"].startswith(rendering)
        assert told["tokenizer"] == tokenizer


def test_a_kept_cache_that_is_encoded_anew_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"prompt_ids": [0], "completion_ids": [1, 2]},
        {"prompt_ids": [0, 2], "completion_ids": [3]},
    ]
    for word in ("kv_orig", "re_prefill"):
        path = tmp_path / f"{word}.jsonl"
        path.write_text("".join(f"{json.dumps(line | {'semantics': word})}\n" for line in lines))
        for kind in ("packed", "branches"):
            out = tmp_path / ("out.safetensors" if kind == "packed" else "out.jsonl")
            assert main(["convert", str(path), str(out), "--as", kind]) == 0
            assert ("it is a recompute" in capsys.readouterr().err) == (word == "kv_orig")
