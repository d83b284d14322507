from __future__ import annotations

import json
from pathlib import Path

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
