"""Plain attention of some queries to some keys with its log-sum-exp: the parts of a packed row.

cuDNN's on CUDA; elsewhere the formula itself, which the kernels are tested against. Letters: N
queries, K keys, H heads, G heads of keys, D width of a head.
"""

from __future__ import annotations

import torch

Vectors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def attention(vectors: Vectors, scale: float, *, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (1, H, N, D) and log-sum-exp (1, H, N) of queries that see all keys.

    Args:
        vectors: Queries (1, H, N, D), keys and values (1, G, K, D).
        scale: Factor of the scores.
        causal: Whether the last query sees all keys, the one before all but the last, and so on;
            on CUDA only for as many queries as keys.
    """
    query, key, value = vectors
    if query.device.type == "cuda":
        run = torch.ops.aten._scaled_dot_product_cudnn_attention
        found = run(query, key, value, None, True, 0.0, causal, False, scale=scale)
        return found[0], found[1].view(query.shape[:3])
    scores = _scores(query, key, scale, causal=causal)
    groups = query.shape[1] // key.shape[1]
    out = scores.softmax(-1) @ value.repeat_interleave(groups, 1)
    return out, scores.logsumexp(-1)


def attention_backward(whole: Vectors, vectors: Vectors, scale: float, *, causal: bool) -> Vectors:
    """Gradients of queries, keys and values.

    Args:
        whole: Gradient and output (1, H, N, D) and log-sum-exp (1, H, N) of all that the queries
            see, here and elsewhere.
        vectors: As in `attention`.
        scale: As in `attention`.
        causal: As in `attention`.
    """
    outer, merged, total = whole
    query, key, value = vectors
    if query.device.type == "cuda":
        state = torch.zeros((), dtype=torch.int64, device=query.device)
        found = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            *(outer, query, key, value, merged, total[..., None].contiguous(), state, state),
            *(None, None, None, query.shape[2], key.shape[2], 0.0, causal),
            scale=scale,
        )
        return found[0], found[1], found[2]
    groups = query.shape[1] // key.shape[1]
    weights = (_scores(query, key, scale, causal=causal) - total[..., None]).exp()
    of_value = weights.transpose(-1, -2) @ outer
    of_weights = outer @ value.repeat_interleave(groups, 1).transpose(-1, -2)
    slope = weights * (of_weights - (outer * merged).sum(-1, keepdim=True)) * scale
    of_key = slope.transpose(-1, -2) @ query
    shape = (1, key.shape[1], groups, *key.shape[2:])
    return (
        slope @ key.repeat_interleave(groups, 1),
        of_key.view(shape).sum(2),
        of_value.view(shape).sum(2),
    )


def _scores(query: torch.Tensor, key: torch.Tensor, scale: float, *, causal: bool) -> torch.Tensor:
    groups = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(groups, 1).transpose(-1, -2) * scale
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        later = allowed.triu(1 + key.shape[2] - query.shape[2])
        scores = scores.masked_fill(later, -torch.inf)
    return scores
