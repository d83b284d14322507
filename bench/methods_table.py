"""Makes `docs/methods.md`: what every method costs, covers and gets wrong. No wall-clock numbers.

python bench/methods_table.py > docs/methods.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from mwviz.analysis import Analysis
from mwviz.demos import DEMOS, open_demo
from mwviz.engine import losses, sdcc
from mwviz.engine.model import Model, wrap
from mwviz.errors import ViewError
from mwviz.sdcc import STRENGTH, consistency_targets
from mwviz.trace import load
from mwviz.views import METHODS, Method, method_named

CASE = Path(__file__).parents[1] / "tests/data/cases/vector-1-running-example/calls.jsonl"
REFERENCE = "logit_tree"
BLANK = "-"
"""Nats: drift of equal contexts in float32 stays below."""
ROUNDING = 1e-9
"""Relative error of equal gradients in float64."""
HEAD = """\
# Methods

Every method lays the same rollout out for training. The first table says what that costs on a demo,
how much of it is trained, how far the worst trained token drifts from its true context, and how far
the gradient is from that of `{reference}`. The demo is `{demo}`: {calls} calls, {sampled}
sampled tokens, {branches} branches, scored by the demos' agent in float32 with a floor of
{floor:.1g} nats. Gradients are those of a random GPT-2 of two layers in float64, on the running
example of the theory (T1), whose three drops every method can lay out.

- *rows* are sequences fed to the model, *tokens* their sum; a forward and a backward pass a row.
  SDCC runs its teacher besides, once, without gradient.
- *exact for* names how a cache must have been treated for every target to be predicted as it was
  sampled: re-prefill encodes a changed prompt anew, kv_orig keeps entries where they stood.
- Drift without coverage says little: `last_call` has none and trains next to nothing.
- Gradient numbers belong to this model and this rollout. Only those of exact methods are promised.

Made by `python bench/methods_table.py`.
"""


@dataclass(frozen=True)
class Line:
    """One method on the demo."""

    method: Method
    cells: tuple[str, ...]
    """rows, tokens, forwards, backwards, coverage, exact for, max |drift|."""


class Gradient(NamedTuple):
    """A method's gradient against the reference's, as cells."""

    cosine: str
    error: str
    """Relative."""
    norm: str
    """Ratio of the two."""


def lines(analysis: Analysis) -> list[Line]:
    return [Line(method, _cells(analysis, method)) for method in METHODS]


def _cells(analysis: Analysis, method: Method) -> tuple[str, ...]:
    exact = method.exact_for or "nothing"
    try:
        view = analysis.view(method.name)
    except ViewError as error:
        why = str(error).split(": ", 1)[1].split(";")[0]
        return (*(BLANK,) * 5, exact, f"refused: {why}")
    rows = len(view.rows)
    forwards = str(rows) if method.student is None else f"{rows} + teacher"
    tokens = sum(row.size for row in view.rows)
    drift = "the reference" if method.name == REFERENCE else BLANK
    if method.name in analysis.scores and method.name != REFERENCE:
        scores = analysis.scores[method.name]
        compared = analysis.compared(scores, analysis.scores[REFERENCE])
        worst = compared.drift().values["max_abs"]
        drift = "at the floor" if worst <= compared.threshold else f"{worst:.2f}"
    coverage = f"{view.coverage:.1%}"
    return (str(rows), f"{tokens:,}", forwards, str(rows), coverage, exact, drift)


def tiny() -> Model:
    """A random GPT-2 that reacts to its context, always the same."""
    torch.manual_seed(3)
    config = GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=2, n_positions=128, initializer_range=0.2
    )
    module = GPT2LMHeadModel(config).double()
    module.train(mode=False)
    return wrap(module, name="gpt2", revision="random")


def gradient(analysis: Analysis, method: Method) -> npt.NDArray[np.float64]:
    """Of the method's loss, over all parameters."""
    model, view = tiny(), analysis.view(method.name)
    if method.student is None:
        losses.backward(analysis.tree, view, model)
    else:
        chosen = consistency_targets(view, analysis.pairs(method.name))
        sdcc.backward(analysis.tree, view, model, consistency=chosen, strength=STRENGTH)
    parts = [p.grad.flatten() for p in model.module.parameters() if p.grad is not None]
    result: npt.NDArray[np.float64] = torch.cat(parts).numpy()
    return result


def gradients(analysis: Analysis) -> dict[str, Gradient]:
    """By method; see `Gradient`."""
    truth = gradient(analysis, method_named(REFERENCE))
    size = float(np.linalg.norm(truth))
    found: dict[str, Gradient] = {}
    for method in METHODS:
        own = gradient(analysis, method)
        norm = float(np.linalg.norm(own))
        cosine = float(own @ truth) / (norm * size)
        error = float(np.linalg.norm(own - truth)) / size
        shown = f"{error:.3f}" if error > ROUNDING else "below 1e-9"
        found[method.name] = Gradient(f"{cosine:.3f}", shown, f"{norm / size:.2f}")
    return found


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    return "".join("| " + " | ".join(r) + " |\n" for r in (head, ("---",) * len(head), *rows))


def page(made: dict[str, Gradient]) -> str:
    """The whole page, with the gradients given."""
    (analysis,) = open_demo(DEMOS[0]).analyses
    head = HEAD.format(
        demo=DEMOS[0].name,
        calls=len(analysis.rollout.calls),
        sampled=f"{len(analysis.tree.token):,}",
        branches=len(analysis.tree.leaves),
        floor=analysis.scores[REFERENCE].floor.threshold,
        reference=REFERENCE,
    )
    names = ("method", "rows", "tokens", "forwards", "backwards", "coverage", "exact for")
    numbers = ("max \\|drift\\|, nats", "gradient cosine", "relative error", "norm ratio")
    rows = [
        (f"`{line.method.name}`", *line.cells, *made[line.method.name]) for line in lines(analysis)
    ]
    what = [(f"`{m.name}`", m.summary, m.why_not or BLANK) for m in METHODS]
    return "\n".join(
        (
            head,
            "## Cost, coverage, drift, gradient\n",
            table((*names, *numbers), rows),
            "## What each feeds\n",
            table(("method", "feeds", "why it is not exact elsewhere"), what),
        )
    ).rstrip("\n")


if __name__ == "__main__":
    (case,) = load(CASE).analyses
    print(page(gradients(case)))
