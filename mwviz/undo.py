"""A rollout in which one eviction never happened: the evicted tokens stand where they stood.

Makes edited prompts of token ids; knows no model. What was put in their place (a stub, a summary)
stays, as the log does not always tell it from the next turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mwviz.encoding import CallTokens, Encoding
from mwviz.errors import ViewError
from mwviz.junctions import Junction
from mwviz.rollout import Call, Ints, Rollout
from mwviz.tree import EvictionTree, build_tree
from mwviz.trie import Longs


@dataclass(frozen=True, slots=True, eq=False)
class Undone:
    """The edited rollout's tree; its targets are those of the recorded one, one for one."""

    tree: EvictionTree
    calls: tuple[int, ...]
    """The junction's call and the later ones that start with its prompt: those were edited."""
    targets: Longs
    """int64: targets of these calls."""
    tokens: int
    """Tokens put back."""


def undo(tree: EvictionTree, junction: Junction) -> Undone:
    """Puts back what a junction evicted, for its call and those that continue it.

    Args:
        tree: of the rollout.
        junction: one of its junctions.

    Raises:
        ViewError: nothing recorded was evicted there.
    """
    if junction.depth is None or not len(junction.evicted):
        raise ViewError(
            f"junction before call {junction.call}: no evicted tokens are recorded, so nothing can "
            "be put back"
        )
    prompt = tree.context(junction.call)[: tree.prompt_length[junction.call]]
    back = tree.ids[with_evicted(tree, junction, prompt)]
    contexts, calls = [], []
    for call in range(len(tree.tip)):
        nodes = tree.context(call)
        start = int(tree.prompt_length[call])
        ids = tree.ids[nodes[:start]]
        if continues(tree, junction, call):
            ids = np.concatenate((back, ids[len(prompt) :]), dtype=np.int32)
            calls.append(call)
        contexts.append((ids, tree.ids[nodes[start:]]))
    return Undone(
        tree=_grown(tree, contexts),
        calls=tuple(calls),
        targets=np.flatnonzero(np.isin(tree.call, calls)),
        tokens=len(junction.evicted),
    )


def continues(tree: EvictionTree, junction: Junction, call: int) -> bool:
    """Whether a call is the junction's, or a later one of its agent that starts with its prompt."""
    if call < junction.call or tree.lineage[call] != tree.lineage[junction.call]:
        return False
    length = int(tree.prompt_length[junction.call])
    if length > int(tree.prompt_length[call]):
        return False
    return np.array_equal(tree.context(call)[:length], tree.context(junction.call)[:length])


def with_evicted(tree: EvictionTree, junction: Junction, prompt: Longs) -> Longs:
    """int64: nodes of the prompt, each evicted run behind the token that it stood behind."""
    context = tree.context(junction.previous)
    evicted = np.isin(context, junction.evicted)
    place = {int(tree.origin[node]): at for at, node in enumerate(prompt)}
    pieces: list[list[int]] = [[] for _ in range(len(prompt) + 1)]
    assert junction.depth is not None
    behind = junction.depth
    for node, gone in zip(context.tolist(), evicted.tolist(), strict=True):
        if gone:
            pieces[behind].append(node)
        else:
            behind = place.get(int(tree.origin[node]), behind - 1) + 1
    merged = [*pieces[0]]
    for at, node in enumerate(prompt.tolist()):
        merged += [node, *pieces[at + 1]]
    return np.array(merged, dtype=np.int64)


def _grown(tree: EvictionTree, contexts: list[tuple[Ints, Ints]]) -> EvictionTree:
    calls = tuple(
        Call(
            id=str(call),
            prompt_ids=prompt,
            completion_ids=completion,
            lineage=tree.lineages[tree.lineage[call]],
        )
        for call, (prompt, completion) in enumerate(contexts)
    )
    tokens = tuple(CallTokens((prompt,), completion, ()) for prompt, completion in contexts)
    encoding = Encoding(tokens, tokenizer="unknown", rendering="recorded")
    return build_tree(encoding, Rollout("undone", calls, semantics="re_prefill"))
