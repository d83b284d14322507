"""What a junction did that one would not guess: split groups, unknown authors, lost text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mwviz.junctions import Junction
from mwviz.rollout import Message, Rollout
from mwviz.tree import EvictionTree
from mwviz.wording import counted

SUMMARIES = frozenset({"summary", "summary_tail"})
QUOTED = 0.5
"""Share of a completion that a prompt must show for its call to be the author."""
LEAST = 3
"""Tokens of a summary that is looked for word for word."""


def junction_notes(
    tree: EvictionTree, rollout: Rollout, junctions: tuple[Junction, ...]
) -> tuple[str, ...]:
    """One sentence for every oddity, in call order."""
    notes: list[str] = []
    for junction in junctions:
        if junction.depth is None:
            continue
        notes += _split_groups(rollout, junction)
        if junction.kind in SUMMARIES:
            notes += _author(tree, junction)
    return tuple(notes)


def _split_groups(rollout: Rollout, junction: Junction) -> list[str]:
    """Parallel tool calls and results of which the junction took only some."""
    before, after = rollout.calls[junction.previous], rollout.calls[junction.call].prompt
    if before.prompt is None or after is None:
        return []
    was = _groups((*before.prompt, *(before.completion or ())))
    now = _tool_ids(after)
    notes = []
    for group in was:
        kept = [name for name in group if name in now]
        if len(group) > 1 and 0 < len(kept) < len(group):
            gone = [name for name in group if name not in now]
            notes.append(
                f"call {junction.call}: a group of parallel tool calls was split: "
                f"{', '.join(gone)} left and {', '.join(kept)} stayed"
            )
    return notes


def _groups(messages: Sequence[Message]) -> list[list[str]]:
    """Tool-call ids that one message made together, each as `call ID` or `result ID`."""
    groups = []
    results = {part.id for m in messages for part in m.parts if part.kind == "tool_result"}
    for message in messages:
        ids = [part.id for part in message.parts if part.kind == "tool_call" and part.id]
        made = [f"call {name}" for name in ids]
        answered = [f"result {name}" for name in ids if name in results]
        if ids:
            groups.append(made + answered)
    return groups


def _tool_ids(messages: Sequence[Message]) -> set[str]:
    names = {"tool_call": "call", "tool_result": "result"}
    return {
        f"{names[part.kind]} {part.id}"
        for message in messages
        for part in message.parts
        if part.kind in names and part.id
    }


def _author(tree: EvictionTree, junction: Junction) -> list[str]:
    """Whether a summary's author is logged, and what left without the author having seen it."""
    prompt = tree.context(junction.call)[: tree.prompt_length[junction.call]]
    shown = tree.origin[prompt[junction.depth or 0 :]]
    sampled = np.isin(tree.origin[tree.token], shown) & (tree.call < junction.call)
    quoted = np.bincount(tree.call[sampled], minlength=len(tree.tip))
    size = np.bincount(tree.call, minlength=len(tree.tip))
    authors = np.flatnonzero((quoted > 0) & (quoted >= QUOTED * size))
    kept = np.isin(np.arange(len(tree.tip)), _kept_turns(tree, junction))
    authors = authors[~kept[authors]]
    if len(authors) == 0:
        authors = np.array(_short_authors(tree, junction), dtype=np.int64)
    if len(authors) == 0:
        return [f"call {junction.call}: no call in the log wrote the summary that it shows"]
    author = int(authors[-1])
    seen = tree.origin[tree.context(author)]
    lost = junction.evicted[~np.isin(tree.origin[junction.evicted], seen)]
    if len(lost) == 0:
        return []
    return [
        f"call {junction.call}: {counted(len(lost), 'token')} left that the summary's author, call "
        f"{author}, had not seen: in no summary"
    ]


def _short_authors(tree: EvictionTree, junction: Junction) -> list[int]:
    """Which of the calls just before wrote what came in, word for word.

    A text of a few tokens has no identity of its own in a tree, so it may be a summary unseen.
    """
    came = tree.ids[junction.inserted]
    found = []
    for call in sorted({junction.previous, junction.call - 1}):
        said = tree.ids[tree.token[tree.call == call]]
        for words in (said, said[:-1]):  # the end of a turn is the model's, not the summary's
            if LEAST <= len(words) <= len(came):
                windows = np.lib.stride_tricks.sliding_window_view(came, len(words))
                if (windows == words).all(axis=1).any():
                    found.append(call)
                    break
    return found


def _kept_turns(tree: EvictionTree, junction: Junction) -> list[int]:
    """Calls whose completion was kept as a turn of its own: quoted, but not as a summary."""
    retained = set(tree.origin[junction.retained].tolist())
    turns = []
    for call in range(junction.call):
        own = tree.origin[tree.token[tree.call == call]]
        before = tree.origin[tree.context(call)[: tree.prompt_length[call]]][-2:]
        if len(own) and set(own.tolist()) <= retained and set(before.tolist()) <= retained:
            turns.append(call)
    return turns
