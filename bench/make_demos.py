"""Makes `mwviz/demo/` from the project's recorded rollouts: traces as `mwviz/1`, and their scores.

python bench/make_demos.py ROLLOUTS.jsonl
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mwviz import store
from mwviz.analysis import load
from mwviz.demos import DEMOS, FOLDER
from mwviz.engine.attention import choose_kernel
from mwviz.engine.model import load_model
from mwviz.engine.steps import finish
from mwviz.errors import ViewError
from mwviz.formats.mwviz1_writer import write
from mwviz.rollout import Call, Hint, Message, Part, Rollout, Source, Span
from mwviz.views import METHODS

RECORDED = {"busy": "held-summary-0", "tidy": "big-prune-0", "control": "control-none-0"}
KINDS = {"prune": "placeholder", "summary": "summary", "fold": "fold", "window": "drop"}
"""What the recording harness did, in the words of the theory."""


def rollout(record: dict[str, Any]) -> Rollout:
    """One recorded rollout with its messages, spans and evictions."""
    pool = {
        mid: Message(
            role=told["role"],
            parts=(Part("text", told["text"]),),
            id=f"m{mid}",
            mark={"summary": "summary", "cleared": "placeholder"}.get(told["kind"])
            if not told["sampled"]
            else None,
        )
        for mid, told in record["messages"].items()
    }
    after = {eviction["after_call"]: eviction["policy"] for eviction in record["evictions"]}
    calls = []
    for told in record["calls"]:
        index = told["call"]
        spans = [
            Span(s["start"], s["end"], f"m{s['mid']}", s["role"], s["kind"])
            for s in told["segments"]
        ]
        end = len(told["prompt_ids"]) + len(told["completion_ids"])
        kind = "summary" if told["kind"] == "summary" else "act"
        spans.append(Span(spans[-1].end, end, f"m{told['completion_mid']}", "assistant", kind))
        policy = after.get(index - 1)
        calls.append(
            Call(
                id=f"c{index}",
                lineage="main",
                prompt=tuple(pool[str(s["mid"])] for s in told["segments"]),
                completion=(pool[str(told["completion_mid"])],),
                prompt_ids=np.array(told["prompt_ids"], dtype=np.int32),
                completion_ids=np.array(told["completion_ids"], dtype=np.int32),
                logprobs=np.array(told["logprobs"], dtype=np.float32),
                spans=tuple(spans),
                temperature=record["temperature"],
                model="SmolLM2-135M-Instruct",
                finish=told["finish"],
                hints=(Hint(KINDS[policy]),) if policy else (),
            )
        )
    return Rollout(
        id=record["id"],
        calls=tuple(calls),
        semantics="re_prefill",
        source=Source("mwviz/1"),
        tokenizer="SmolLM2-135M-Instruct",
        reward=record["reward"],
    )


def main(path: str) -> None:
    """Writes every demo and its scores; takes minutes on a small machine."""
    lines = Path(path).read_text().splitlines()
    records = {record["id"]: record for record in map(json.loads, lines)}
    FOLDER.mkdir(exist_ok=True)
    model = load_model()
    listed: dict[str, list[dict[str, str]]] = {}
    for demo in DEMOS:
        made = rollout(records[RECORDED[demo.name]])
        write([replace(made, id=demo.name)], demo.path)
        (analysis,) = load(demo.path).analyses
        listed[demo.name] = []
        for method in METHODS:
            try:
                scores = finish(analysis.scoring(model, method.name))
            except ViewError as refusal:
                print(demo.name, refusal)
                continue
            packed = any(row.mask != "causal" for row in analysis.view(method.name).rows)
            key = store.Key(
                analysis.digest,
                model.label,
                method.name,
                model.precision,
                choose_kernel(model, packed=packed),
                model.device.type,
            )
            with (FOLDER / f"{demo.name}.{method.name}.npz").open("wb") as stream:
                store.write(stream, key, replace(scores, hidden=None))
            listed[demo.name].append(key._asdict())
            print(demo.name, method.name, f"{scores.seconds:.1f} s")
    (FOLDER / "scores.json").write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
