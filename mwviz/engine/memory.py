"""Bytes that a row needs beyond the weights, and how much of it fits in what is free.

The formulas are those of docs/performance.md.
"""

from __future__ import annotations

import torch

from mwviz.engine import fused, kernels
from mwviz.engine.model import Model
from mwviz.engine.widths import widths

RESERVE = 0.9
"""Share of the free memory that a row may plan with; the allocator fragments the rest."""
KEPT = {True: 1.05, False: 2.2}
"""Activations kept for the backward pass, compiled or not, over `Widths.kept`; measured."""


def free_bytes(model: Model) -> int | None:
    """Memory that can still be taken; None where the device does not tell."""
    if model.device.type != "cuda":
        return None
    free, _total = torch.cuda.mem_get_info(model.device)
    unused = torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    return free + unused


def fits(model: Model, need: int) -> bool:
    """Whether so many bytes fit in the memory that is free now; unknown counts as yes."""
    free = free_bytes(model)
    return free is None or need <= RESERVE * free


def recomputes(model: Model, *, tokens: int, targets: int) -> bool:
    """Whether a row's backward pass fits only if layers keep nothing but their inputs."""
    need = row_bytes(model, tokens=tokens, targets=targets, train=True, recompute=False)
    return not fits(model, need)


def most_tokens(
    model: Model,
    *,
    tokens: int,
    targets: int,
    train: bool,
    twice: bool = True,
    line: int | None = None,
) -> int | None:
    """Tokens of a row that fit; None if all do.

    Args:
        model: Runs it.
        tokens: Of the whole row.
        targets: Of the whole row.
        train: Whether the backward pass is run too.
        twice: Whether layers may run twice in it so that more fits.
        line: Tokens of a line of a batch; None for a row.
    """
    free = free_bytes(model)

    def need(count: int) -> int:
        trained, again = -(-targets * count // tokens), train and twice
        return row_bytes(
            model, tokens=count, targets=trained, train=train, recompute=again, line=line
        )

    if free is None or not tokens or need(tokens) <= RESERVE * free:
        return None
    low, high = 1, tokens
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if need(middle) <= RESERVE * free else (low, middle - 1)
    return low


def row_bytes(
    model: Model,
    *,
    tokens: int,
    targets: int,
    train: bool,
    recompute: bool,
    line: int | None = None,
) -> int:
    """Bytes that a row needs beyond the weights.

    Args:
        model: Runs it.
        tokens: Of the row, or of all lines of a batch, padding included.
        targets: Of the row or the batch.
        train: Whether the backward pass is run too.
        recompute: Whether layers run again in it.
        line: Tokens of a line of a batch; None for a row.
    """
    size = widths(model)
    compiled = fused.can_compile(model.module) and model.device.type == "cuda"
    if line is not None:  # many short lines are not compiled, but keep as much as a long row
        compiled = kernels.fuses(model, "sdpa", line)
    of_layers = int(size.kept * KEPT[compiled])
    token = of_layers if train and not recompute else of_layers // size.layers
    if recompute:
        token += size.hidden * size.number * size.layers
    held = min(targets * size.vocabulary, 1 << 28) * 4 * 3
    head = size.vocabulary * size.hidden * (4 + size.number) if train else 0
    gradients = size.weights * size.number if train else 0
    return tokens * token + held + head + gradients
