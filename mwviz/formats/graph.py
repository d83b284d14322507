"""The engine of message graphs: nodes with parents to calls, each node's tokens in their place.

A node adds its tokens to those of its ancestors; a sampled node ends a call. It does not know how
a format names its fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mwviz.formats.fields import FieldError
from mwviz.rollout import Call, Floats, Ints, Message, Span


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One message of a graph, with the tokens it adds."""

    parent: int | None
    message: Message
    ids: Ints
    """int32 (T,): empty if the log holds none."""
    sampled: npt.NDArray[np.bool_]
    """bool (T,): True where the model sampled the token."""
    logprobs: Floats | None
    """float32 (S,): one a sampled token, in nats; None if the log holds none."""


def path_to(nodes: Sequence[Node], node: int) -> list[int]:
    """The node with its ancestors, root first.

    Raises:
        FieldError: A parent is no earlier node.
    """
    path = [node]
    while (parent := nodes[path[-1]].parent) is not None:
        if not 0 <= parent < path[-1]:
            raise FieldError(f"node {path[-1]} has the parent {parent}, expected an earlier node")
        path.append(parent)
    return path[::-1]


def with_context(call: Call, nodes: Sequence[Node], node: int) -> Call:
    """The call that sampled the node, with the prompt its ancestors make.

    Raises:
        FieldError: A parent is no earlier node, or marks and logprobs do not fit the tokens.
    """
    path = path_to(nodes, node)
    before, last = [nodes[at] for at in path[:-1]], nodes[node]
    said = replace(
        call,
        prompt=tuple(earlier.message for earlier in before),
        completion=(last.message,),
        tokens="rendered",
    )
    if not len(last.ids):
        return said
    if len(last.sampled) != len(last.ids):
        raise FieldError(f"node {node} has {len(last.ids)} tokens and {len(last.sampled)} marks")
    places = np.flatnonzero(last.sampled)
    first, end = (int(places[0]), int(places[-1]) + 1) if len(places) else (len(last.ids),) * 2
    prompt = [*(earlier.ids for earlier in before), last.ids[:first]]
    return replace(
        said,
        prompt_ids=np.concatenate(prompt, dtype=np.int32),
        completion_ids=last.ids[first:end],
        spans=_spans([*before, replace(last, ids=last.ids[:end])]),
        logprobs=_logprobs(last, places - first, end - first, node_id=node),
        tokens="recorded",
    )


def _spans(nodes: Sequence[Node]) -> tuple[Span, ...]:
    found: list[Span] = []
    start = 0
    for node in nodes:
        end = start + len(node.ids)
        if end > start:
            identity = node.message.content_key.hex()
            found.append(Span(start, end, identity, node.message.role, node.message.mark or ""))
        start = end
    return tuple(found)


def _logprobs(
    node: Node, places: npt.NDArray[np.int64], size: int, *, node_id: int
) -> Floats | None:
    if node.logprobs is None:
        return None
    if len(node.logprobs) != len(places):
        raise FieldError(
            f"node {node_id} has {len(node.logprobs)} logprobs for {len(places)} sampled tokens"
        )
    values = np.full(size, np.nan, dtype=np.float32)
    values[places] = node.logprobs
    return values
