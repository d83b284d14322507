"""A model with random weights on one card, its layers on two, or each layer cut in two.

    python -m bench.sharded one|spread FOLDER OUT --shape 1.7B
    torchrun --nproc-per-node=2 -m bench.sharded tensor FOLDER OUT --shape 1.7B

`one` writes the model and what it says and learns to FOLDER; the others are compared with that.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed
from transformers import AutoModelForCausalLM, PreTrainedModel

from bench.apart import ROOT
from mwviz.engine import bench, losses
from mwviz.engine.model import Model, wrap
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.engine.workloads import Workload, read_workload
from mwviz.views import build_view

SMALL = 0.05
"""Factor of tree D's tokens where float32 is compared."""
PARTS = ("embed_tokens", "layers.0.", "norm")
"""Parameters whose gradients are compared, by name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=("one", "spread", "tensor"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", default="1.7B")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    found: dict[str, Any] = {"how": given.how}
    narrow = torch.bfloat16 if given.device == "cuda" else torch.float32
    for dtype, scale, timed in (
        (torch.float32, SMALL * given.scale, False),
        (narrow, given.scale, True),
    ):
        model = _model(given, dtype)
        tree = read_workload(
            ROOT / "bench" / "workloads" / "D.json", vocabulary=model.vocabulary, scale=scale
        )
        said = _said(model, tree, timed=timed)
        name = f"{str(dtype).removeprefix('torch.')}, {tree.tree.size} tokens"
        kept = given.folder / f"{name}.pt"
        if given.how == "one":
            torch.save(said, kept)
            found[name] = {"ms": said["ms"]}
        else:
            found[name] = _apart(said, torch.load(kept, weights_only=False)) | {"ms": said["ms"]}
        del model
    if int(os.environ.get("RANK", "0")) == 0:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _model(given: argparse.Namespace, dtype: torch.dtype) -> Model:
    saved = given.folder / str(dtype).removeprefix("torch.")
    if given.how == "one":
        model = bench.random_model(given.shape, device=torch.device(given.device), dtype=dtype)
        model.module.save_pretrained(saved)
        return model
    here = "auto" if given.device == "cuda" else {"": "cpu"}
    place = {"device_map": here} if given.how == "spread" else {"tp_plan": "auto"}
    module = AutoModelForCausalLM.from_pretrained(saved, dtype=dtype, **place)
    assert isinstance(module, PreTrainedModel)
    module.train(mode=False)
    return wrap(module, name=f"qwen3-{given.shape}", revision="random")


def _said(model: Model, workload: Workload, *, timed: bool) -> dict[str, Any]:
    """Log-probabilities, some gradients, and milliseconds of each."""
    tree, ms = workload.tree, {}
    views = {name: build_view(tree, name) for name in ("packed_mask", "logit_tree")}
    found: dict[str, Any] = {}
    for name, view in views.items():
        for again in range(1 + timed):
            began = time.perf_counter()
            found[name] = finish(score(tree, view, model)).logprob
            ms[f"{name} score{' first' if not again else ''}"] = (time.perf_counter() - began) * 1e3
    for name, view in views.items():
        for again in range(1 + timed):
            model.module.zero_grad(set_to_none=True)
            began = time.perf_counter()
            losses.backward(tree, view, model)
            ms[f"{name} train{' first' if not again else ''}"] = (time.perf_counter() - began) * 1e3
        found[f"{name} gradient"] = _gradients(model)
    devices = {str(part.device) for part in model.module.parameters()}
    return found | {"ms": ms, "devices": sorted(devices)}


def _gradients(model: Model) -> dict[str, torch.Tensor]:
    return {
        name: _whole(part.grad)
        for name, part in model.module.named_parameters()
        if part.grad is not None and any(one in name for one in PARTS)
    }


def _whole(gradient: torch.Tensor) -> torch.Tensor:
    gather = getattr(gradient, "full_tensor", None)
    return (gradient if gather is None else gather()).detach().float().cpu()


def _apart(said: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Distances from what the model says and learns on one device."""
    packed, separate = said["packed_mask"], said["logit_tree"]
    worst = {view: _worst(said, one, view) for view in ("packed_mask", "logit_tree")}
    return {
        "devices": said["devices"],
        "packed against one device, max": float(np.abs(packed - one["packed_mask"]).max()),
        "logit_tree against one device, max": float(np.abs(separate - one["logit_tree"]).max()),
        "packed against logit_tree, max": float(np.abs(packed - separate).max()),
        "gradient, worst": worst["packed_mask"].error,
        "gradient, worst of": worst["packed_mask"].name,
        "logit_tree gradient, worst": worst["logit_tree"].error,
        "logit_tree gradient, worst of": worst["logit_tree"].name,
    }


class _Off(NamedTuple):
    error: float
    """Norm of the difference over the norm of one device's gradient."""
    name: str


def _worst(said: dict[str, Any], one: dict[str, Any], view: str) -> _Off:
    """The gradient that lies farthest from one device's."""
    expected = one[f"{view} gradient"]
    return max(
        _Off(float((part - expected[name]).norm() / expected[name].norm()), name)
        for name, part in said[f"{view} gradient"].items()
    )


if __name__ == "__main__":
    main()
