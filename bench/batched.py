"""LogitTree with several branches in one padded batch: tried before the engine takes it in.

Causal rows need no mask for padding behind them, so a batch says and learns what its rows do one by
one; what it saves are launches, what it costs is padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mwviz.engine import attention, vocabulary
from mwviz.engine.flex import padded
from mwviz.engine.layout import Layout
from mwviz.engine.model import Model
from mwviz.engine.nll import weighted_nll
from mwviz.tree import EvictionTree
from mwviz.views import build_view


def groups(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Rows of like length together, as many as fit in `most` tokens with their padding.

    Args:
        sizes: Tokens of each row.
        most: Tokens of a batch; a longer row is one by itself.
    """
    found: list[list[int]] = []
    for row in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
        if found and sizes[found[-1][0]] * (len(found[-1]) + 1) <= most:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def step(tree: EvictionTree, model: Model, *, most: int) -> None:
    """Adds the gradient of the tree's mean loss, as `losses.backward` does row by row."""
    rows = build_view(tree, "logit_tree").rows
    parts = [attention.layout(tree, row, limit=model.max_positions) for row in rows]
    parts = [part for part in parts if len(part.edges.target)]
    for group in groups([len(part.ids) for part in parts], most):
        loss = _loss(tree, model, [parts[one] for one in group]) / len(tree.token)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's


def _loss(tree: EvictionTree, model: Model, parts: Sequence[Layout]) -> torch.Tensor:
    longest = max(len(part.ids) for part in parts)
    compiled = attention.fuses(model, "sdpa", longest)
    longest = padded(longest, attention.FUSED_UNIT) if compiled else longest
    ids = np.zeros((len(parts), longest), dtype=np.int64)
    for line, part in zip(ids, parts, strict=True):
        line[: len(part.ids)] = part.ids
    given = torch.from_numpy(ids).to(model.device)
    edges = [part.edges for part in parts]
    at = [edge.query + longest * line for line, edge in enumerate(edges)]
    out = vocabulary.head(model)
    query = torch.from_numpy(np.concatenate(at)).to(model.device)
    target = np.concatenate([edge.target for edge in edges])
    tokens = torch.from_numpy(tree.ids[tree.token[target]].astype(np.int64)).to(model.device)
    wide = torch.promote_types(out.weight.dtype, torch.float32)
    weights = torch.from_numpy(np.concatenate([edge.weight for edge in edges]))
    with attention.running(model, "sdpa", compiled=compiled):
        hidden = model.module.base_model(
            input_ids=given,
            position_ids=torch.arange(longest, device=model.device)[None],
            attention_mask=torch.ones_like(given),
            use_cache=False,
        ).last_hidden_state
    states = hidden.flatten(0, 1).index_select(0, query)
    return weighted_nll(out, states, tokens, weights.to(model.device, wide))
