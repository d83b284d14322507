"""What an export does not say, told to whoever writes it: nothing gets lost in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from mwviz.analysis import Analysis
from mwviz.rollout import Call, Message, Rollout
from mwviz.wording import counted

RECORDED = "recorded"
DOUBTFUL = ("rebuilt", "partial", "unknown")
"""Fidelities of a call's messages that are not `exact`."""


def rendered(analyses: Sequence[Analysis]) -> Iterator[str]:
    """A sentence for training data whose ids are not those that were sampled."""
    found = [a.encoding for a in analyses if a.encoding.rendering != RECORDED]
    if found:
        first = found[0]
        yield (
            f"the token ids of {len(found)} of {len(analyses)} rollouts are not those that were "
            f"sampled: mwviz rendered them ({first.rendering}, {first.tokenizer}); the file says so"
        )


def unrecorded(analyses: Sequence[Analysis]) -> Iterator[str]:
    """A sentence for training data in which sampled tokens lack their log-probability."""
    found = [a for a in analyses if np.isnan(a.tree.logprob).any()]
    if found:
        yield (
            f"{len(found)} of {len(analyses)} rollouts have sampled tokens without a recorded "
            "log-probability: null in the file (NaN in safetensors), never 0"
        )


def recomputed(analyses: Sequence[Analysis]) -> Iterator[str]:
    """A sentence for training data that encodes anew what a cache had kept."""
    kept = [a for a in analyses if a.tree.semantics != "re_prefill" and len(a.tree.junction_calls)]
    if kept:
        yield (
            f"the cache of {len(kept)} of {counted(len(analyses), 'rollout')} kept entries at "
            "junctions, and this file encodes each context anew: for them it is a recompute, not "
            "what was sampled"
        )


def lost(before: Sequence[Rollout], after: Sequence[Rollout]) -> Iterator[str]:
    """A sentence for each thing that is another one when the export is opened again."""
    ours, theirs = (list(chain.from_iterable(map(_by_agent, found))) for found in (before, after))
    if len(ours) != len(theirs):
        failed = sum(call.completion is None and call.completion_ids is None for call in ours)
        why = f" ({counted(failed, 'failed request')})" if failed else ""
        yield f"it opens again with {len(theirs)} of {len(ours)} calls{why}"
        return
    pairs = list(zip(ours, theirs, strict=True))
    for what, differs in CHECKS.items():
        changed = [call for call, other in pairs if differs(call, other)]
        if changed:
            yield (
                f"{what} in {len(changed)} of {len(ours)} calls when it is opened again; the first "
                f"is {changed[0].id!r}"
            )


def _by_agent(rollout: Rollout) -> list[Call]:
    """The calls of one agent after those of another: a format may tell them in this order."""
    agents: dict[str | None, list[Call]] = {}
    for call in rollout.calls:
        agents.setdefault(call.lineage, []).append(call)
    return list(chain.from_iterable(agents.values()))


def _messages(call: Call, other: Call) -> bool:
    return call.prompt is not None and _keys(call) != _keys(other)


def _keys(call: Call) -> list[tuple[bytes, ...]]:
    return [_contents(messages) for messages in (call.prompt or (), call.completion or ())]


def _contents(messages: Sequence[Message]) -> tuple[bytes, ...]:
    return tuple(_as_result(message).content_key for message in messages)


def _as_result(message: Message) -> Message:
    """The message of a tool as its result, which it is whether or not the log calls it so."""
    if message.role != "tool" or [part.kind for part in message.parts] != ["text"]:
        return message
    return replace(message, parts=(replace(message.parts[0], kind="tool_result"),))


def _doubts(call: Call, other: Call) -> bool:
    return call.content in DOUBTFUL and other.content == "exact"


def _ids(call: Call, other: Call) -> bool:
    return any(
        ours is not None and (theirs is None or ours.tolist() != theirs.tolist())
        for ours, theirs in (
            (call.prompt_ids, other.prompt_ids),
            (call.completion_ids, other.completion_ids),
        )
    )


CHECKS: dict[str, Callable[[Call, Call], bool]] = {
    "token ids are lost": _ids,
    "messages are not the same (tool names, empty or opaque parts, roles)": _messages,
    "what was rebuilt or partial passes for exact": _doubts,
}
"""What is compared, by the words that tell it."""
