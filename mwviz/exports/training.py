"""Exact views as training data: for trainers that take a mask, and for those that do not.

`packed` is one row with every token of the tree once: `visible_until[k]` ends the queries that see
key k, `predicted_from[t]` is the place whose state predicts token t. `branches` is one plain causal
sample a branch, each sampled token trained on exactly one of them. Both load again as a batch.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mwviz.analysis import Analysis
from mwviz.errors import TraceError
from mwviz.exports.files import write_lines
from mwviz.exports.shapes import shaped
from mwviz.extras import needed
from mwviz.trie import Longs
from mwviz.views.view import Row

Arrays = dict[str, npt.NDArray[Any]]


def packed_arrays(analysis: Analysis) -> Arrays:
    """The packed row of a rollout. T tokens.

    Returns:
        `input_ids` int32, `position_ids` int64, `visible_until` int64, `predicted_from` int64 (-1
        for none), `loss_mask` float32 (how many targets a token stands for) and `logprobs` float32
        (as recorded, NaN for none), each (T,).
    """
    rows = analysis.view("packed_mask").rows
    if not rows:
        raise TraceError(f"rollout {analysis.rollout.id!r} has no tokens to export")
    (row,) = rows
    return _arrays(analysis, row, _sampled_at(analysis, row))


def branch_samples(analysis: Analysis) -> list[dict[str, Any]]:
    """One sample a branch, ready for JSON: the arrays of `packed_arrays` but for the mask's.

    `temperatures` are those at which tokens were sampled; null for others, and where not recorded.
    """
    samples = []
    for branch, row in enumerate(analysis.view("logit_tree").rows):
        at = _sampled_at(analysis, row)
        arrays = _arrays(analysis, row, at)
        del arrays["visible_until"], arrays["predicted_from"]
        sample: dict[str, Any] = {name: array.tolist() for name, array in arrays.items()}
        temperatures = _temperatures(analysis, row, at)
        for name, values in (("logprobs", arrays["logprobs"]), ("temperatures", temperatures)):
            sample[name] = [None if math.isnan(value) else value for value in values.tolist()]
        sample |= {"rollout": analysis.rollout.id, "branch": branch}
        sample["reward"] = analysis.rollout.reward
        sample |= _origin(analysis)
        samples.append(sample)
    return samples


def write_packed(analysis: Analysis, path: Path) -> None:
    """Writes a rollout's packed row as safetensors.

    Raises:
        SetupError: the safetensors package is missing.
        TraceError: the file cannot be written.
    """
    with needed():
        from safetensors import SafetensorError
        from safetensors.numpy import save_file
    arrays = packed_arrays(analysis)
    about = {"rollout": analysis.rollout.id, **_origin(analysis)}
    try:
        save_file(arrays, path, metadata=about)
    except (OSError, SafetensorError) as error:
        raise TraceError(f"{path}: cannot be written: {error}") from error


def write_branches(analyses: tuple[Analysis, ...], path: Path, *, shape: str | None = None) -> None:
    """Writes the branch samples of several rollouts as JSON Lines.

    Args:
        analyses: of the rollouts.
        path: of the file.
        shape: one of `SHAPES`, to use that trainer's names; None for mwviz's own.

    Raises:
        TraceError: the file cannot be written, or the shape cannot hold a sample.
    """
    samples = [sample for a in analyses for sample in branch_samples(a)]
    write_lines([shaped(sample, shape) if shape else sample for sample in samples], path)


def _origin(analysis: Analysis) -> dict[str, str]:
    """Whose ids they are, and whether they were sampled or rendered from messages."""
    encoding = analysis.encoding
    return {"tokenizer": encoding.tokenizer, "rendering": encoding.rendering}


def _sampled_at(analysis: Analysis, row: Row) -> Longs:
    """int64, one an edge of the row: the place of the token that it trains."""
    place = np.full(analysis.tree.size, -1, dtype=np.int64)
    place[row.nodes] = np.arange(len(row.nodes))
    return place[analysis.tree.token[row.edges.target]]


def _temperatures(analysis: Analysis, row: Row, at: Longs) -> npt.NDArray[np.float64]:
    """The temperature of the call that sampled each place's token; NaN for none."""
    calls = analysis.rollout.calls
    known = np.array([math.nan if c.temperature is None else c.temperature for c in calls])
    found = np.full(len(row.nodes), np.nan)
    found[at] = known[analysis.tree.call[row.edges.target]]
    return found


def _arrays(analysis: Analysis, row: Row, at: Longs) -> Arrays:
    tree, nodes = analysis.tree, row.nodes
    predicted_from = np.full(len(nodes), -1, dtype=np.int64)
    predicted_from[at] = row.edges.query
    weight = np.zeros(len(nodes), dtype=np.float32)
    np.add.at(weight, at, row.edges.weight)
    logprobs = np.full(len(nodes), np.nan, dtype=np.float32)
    logprobs[at] = tree.logprob[row.edges.target]
    return {
        "input_ids": tree.ids[nodes],
        "position_ids": row.positions,
        "visible_until": row.visible_until,
        "predicted_from": predicted_from,
        "loss_mask": weight,
        "logprobs": logprobs,
    }
