"""Self-check before trust: a model and kernel prove on a small tree that packed rows are isolated.

The tree has a trunk and two branches. A packed pass must score both as separate causal passes do,
and changing one token of a branch must not move any score of the other (the canary).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from mwviz.engine import attention, batches, chance, kernels
from mwviz.engine.floors import Doubles, floor_of, logprobs, logprobs_of
from mwviz.engine.layout import Layout, joined, layout
from mwviz.engine.model import Model
from mwviz.engine.scores import Floor
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree
from mwviz.views import Row, build_view
from mwviz.views.view import Edges

TRUNK, FIRST, SECOND = 8, 12, 9
"""Tokens of the built-in tree's trunk and of its two branches."""
LONG = (4096, 1280, 1152)
"""The same where large parts of a row have a kernel of their own."""
SEED = 17
CANARY_LIMIT = {"float64": 1e-6, "float32": 1e-6, "bfloat16": 1e-3, "float16": 1e-3}
"""Largest move of an isolated score, in nats; theory.md section 9 asks for 1e-6 in float32."""
AGREEMENT_LIMIT = {
    "float64": 1e-4,
    "float32": 1e-3,
    "bfloat16": 0.5,
    "float16": 0.1,
}
"""Largest |packed - logit_tree| in nats; a wrong mask or position moves scores by more."""

NOISY = (
    "dropout or router jitter is on, so no method can be told from noise; call eval() on the model"
)


class Proved(NamedTuple):
    """What rows may run on."""

    kernel: str
    floor: Floor
    """Of the built-in tree on it."""


def proved(
    model: Model, rows: Sequence[Row], *, kernel: str = "auto", masked: bool = False
) -> Proved:
    """The kernel that rows run on, once the model has passed its self-check as they will run.

    Args:
        model: Remembers what it has proved.
        rows: A view's.
        kernel: One of `kernels.KERNELS`.
        masked: Whether causal rows are given a mask too.

    Raises:
        ModelError: The model cannot run them on it; says why and which method works instead.
    """
    packed = masked or any(row.mask != "causal" for row in rows)
    chosen = kernels.choose_kernel(model, packed=packed, kernel=kernel)
    compiled = any(kernels.fuses(model, chosen, row.size) for row in rows)
    return Proved(chosen, prove(model, packed=packed, kernel=chosen, compiled=compiled))


def prove(model: Model, *, packed: bool, kernel: str, compiled: bool = False) -> Floor:
    """The floor of the built-in tree, once the model has passed its self-check with this kernel.

    Args:
        model: Remembers what it has proved.
        packed: Whether the tree mask is needed, or causal rows alone.
        kernel: As `kernels.choose_kernel` gave it.
        compiled: Whether rows will run through compiled layers.

    Raises:
        ModelError: Branches are not isolated, or scores do not agree; names the implementation.
    """
    key = f"{kernel} {'packed' if packed else 'causal'}{' compiled' if compiled else ''}"
    if key not in model.proofs:
        model.proofs[key] = _prove(model, packed=packed, kernel=kernel, compiled=compiled)
    return model.proofs[key]


class Grouped(NamedTuple):
    """How rows run."""

    groups: list[tuple[Row, ...]]
    """Rows that run together."""
    notes: tuple[str, ...]
    """That they do not, and why, where they could for all that was known before."""


def grouped(model: Model, rows: Sequence[Row], *, kernel: str, train: bool) -> Grouped:
    """`batches.grouped`, once the model has shown that lines of a batch do not touch one another.

    Args:
        model: Remembers what it has shown; rows of one that fails run one by one.
        rows: A view's.
        kernel: As `kernels.choose_kernel` gave it.
        train: Whether the backward pass is run too.

    Raises:
        ModelError: As `prove_lines`.
    """
    found = batches.together(model, rows, kernel=kernel, train=train)
    longest = [max(row.size for row in group) for group in found if len(group) > 1]
    for compiled in sorted({kernels.fuses(model, kernel, size) for size in longest}):
        prove_lines(model, kernel, compiled=compiled)
    how = batches.touching(model, kernel) if longest else ""
    if not how:
        return Grouped(found, ())
    return Grouped([(row,) for row in rows], (f"rows ran one by one, not in batches: {how}",))


def prove_lines(model: Model, kernel: str, *, compiled: bool) -> None:
    """Has both branches of the built-in tree say as lines of a batch what they say alone, once.

    Args:
        model: Remembers in `touching` what it has shown.
        kernel: As `kernels.choose_kernel` gave it.
        compiled: Whether rows will run through compiled layers.

    Raises:
        ModelError: Its passes draw random numbers, so that nothing can be told from noise.
    """
    key = f"{kernel}{' compiled' if compiled else ''}"
    if key not in model.touching:
        before = chance.state(model.device)
        how = _lines_touch(model, kernel, compiled=compiled)
        if how and chance.drawn(model.device, before):
            raise ModelError(f"{how}: {NOISY}")
        model.touching[key] = how


def _lines_touch(model: Model, kernel: str, *, compiled: bool) -> str:
    """How the lines of a batch touch one another; "" if they do not."""
    tree = built_in_tree(model.vocabulary)
    rows = build_view(tree, "logit_tree").rows
    alone = logprobs(tree, rows, model, kernel=kernel, compiled=compiled)
    both, first, second = (
        logprobs_of(one, [_batch(one, rows)], model, kernel=kernel, compiled=compiled)
        for one in (tree, _changed(tree, model, TRUNK), _changed(tree, model, TRUNK + FIRST))
    )
    off = float(np.abs(both - alone).max())
    moved = float(max(np.abs(first - both)[FIRST:].max(), np.abs(second - both)[:FIRST].max()))
    if not off <= AGREEMENT_LIMIT[model.precision]:
        return f"{model.name} says {off:.2g} nats else of a branch beside another than alone"
    if not moved <= CANARY_LIMIT[model.precision]:
        return f"in {model.name} a token of one branch moved a score of another by {moved:.2g} nats"
    return ""


def _batch(tree: EvictionTree, rows: Sequence[Row]) -> Layout:
    whole = joined([layout(tree, row, limit=None) for row in rows])
    assert whole is not None
    return whole


def _changed(tree: EvictionTree, model: Model, node: int) -> EvictionTree:
    """The tree with another token at a node."""
    ids = tree.ids.copy()
    ids[node] = (ids[node] + model.vocabulary // 2) % model.vocabulary
    return replace(tree, ids=ids)


def built_in_tree(
    vocabulary_size: int, sizes: tuple[int, int, int] = (TRUNK, FIRST, SECOND)
) -> EvictionTree:
    """A trunk with two sampled branches, of token ids spread over the vocabulary."""
    trunk, one, two = sizes
    count = trunk + one + two
    ids = np.random.default_rng(SEED).integers(0, vocabulary_size, count)
    second = trunk + one
    token = np.arange(trunk, count)
    query = token - 1
    query[one] = trunk - 1
    return EvictionTree(
        ids=ids.astype(np.int32),
        origin=np.arange(count),
        start=np.array([0, trunk, second]),
        parent=np.array([-1, 0, 0]),
        depth=np.array([0, trunk, trunk]),
        exit=np.array([count, second, count]),
        first_call=np.array([0, 0, 1]),
        prompt_length=np.array([trunk, trunk]),
        tip=np.array([second - 1, count - 1]),
        lineage=np.array([0, 0]),
        lineages=("main",),
        query=query,
        token=token,
        call=np.repeat([0, 1], [one, two]),
        offset=np.concatenate((np.arange(one), np.arange(two))),
        logprob=np.full(one + two, np.nan, dtype=np.float32),
        cache=np.array([0, 0]),
    )


def _prove(model: Model, *, packed: bool, kernel: str, compiled: bool) -> Floor:
    tree = built_in_tree(model.vocabulary)
    reference = logprobs(tree, build_view(tree, "logit_tree").rows, model)
    _check_head(model, tree, reference)
    if not packed:
        # The same contexts in rows of other lengths: only rounding may differ.
        short = logprobs(tree, _short_rows(tree), model, kernel=kernel, compiled=compiled)
        return floor_of(short - reference)
    trunk, one = TRUNK, FIRST
    if kernel in kernels.PIECED:
        trunk, one, _two = LONG
        tree = built_in_tree(model.vocabulary, LONG)
        reference = logprobs(tree, build_view(tree, "logit_tree").rows, model)
    rows = build_view(tree, "packed_mask").rows
    scores = logprobs(tree, rows, model, kernel=kernel, compiled=compiled)
    other = _changed(tree, model, trunk)
    changed = logprobs(other, rows, model, kernel=kernel, compiled=compiled)
    moved = float(np.abs(changed - scores)[one:].max())
    if not moved <= CANARY_LIMIT[model.precision]:
        raise ModelError(
            f"{model.name}: packing not isolated under {kernel}: changing a token of one branch "
            f"moved a score of the other by {moved:.2g} nats; take logit_tree"
        )
    drift = np.abs(scores - reference)
    if not drift.max() <= AGREEMENT_LIMIT[model.precision]:
        raise ModelError(
            f"{model.name}: packed_mask and logit_tree differ by {drift.max():.2g} nats under "
            f"{kernel}; take logit_tree"
        )
    return floor_of(drift)


def _check_head(model: Model, tree: EvictionTree, scores: Doubles) -> None:
    """Refuses a model whose own logits are not what its hidden states and head give."""
    own = _own_scores(model, tree)
    off = float(np.abs(own - scores[FIRST:]).max())
    if off <= AGREEMENT_LIMIT[model.precision]:
        return
    again = float(np.abs(own - _own_scores(model, tree)).max())
    if not again <= AGREEMENT_LIMIT[model.precision]:
        raise ModelError(
            f"{model.name}: two passes over the same text differ by {again:.2g} nats: {NOISY}"
        )
    raise ModelError(
        f"{model.name}: its own log-probabilities differ by {off:.2g} nats from its output "
        "head's: it changes its logits in a way that mwviz does not know"
    )


def _own_scores(model: Model, tree: EvictionTree) -> Doubles:
    """float64: log-probabilities of the second branch as the model itself gives them, nats."""
    branch = np.concatenate((np.arange(TRUNK), TRUNK + FIRST + np.arange(SECOND)))
    ids = torch.from_numpy(tree.ids[branch].astype(np.int64))[None].to(model.device)
    kernel = kernels.choose_kernel(model, packed=False)
    with torch.inference_mode(), attention.running(model, kernel):
        own = model.module(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
        logprobs = torch.log_softmax(own.logits[0, TRUNK - 1 : -1].double(), dim=-1).cpu()
    found: Doubles = logprobs.gather(1, ids[0, TRUNK:, None].cpu())[:, 0].numpy()
    return found


def _short_rows(tree: EvictionTree) -> tuple[Row, ...]:
    """The branches' contexts cut after half of each branch, training what they predict."""
    rows = []
    for row in build_view(tree, "logit_tree").rows:
        half = len(row.edges.target) // 2
        size = row.size - len(row.edges.target) + half
        length = np.diff(np.minimum(np.cumsum(row.length), size), prepend=0)
        query, target, weight = row.edges
        edges = Edges(query[:half], target[:half], weight[:half])
        rows.append(replace(row, length=length, edges=edges))
    return tuple(rows)
