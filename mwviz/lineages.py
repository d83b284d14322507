"""Which agent each call belongs to: by the log's names, else by which context a prompt extends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mwviz.encoding import CallTokens, Encoding
from mwviz.rollout import Ints, Rollout
from mwviz.trie import Longs, Trie

SAME_START = 8
"""Tokens two prompts of a log without messages must share to count as starting the same way."""


class Lineages(NamedTuple):
    """Assignment of calls to agents. C calls."""

    of_call: Longs
    """int64 (C,): index into `names`."""
    names: tuple[str, ...]
    """In order of first call; `main` and `agent-2`, `agent-3`, ... where the log gives none."""


def assign_lineages(
    trie: Trie, encoding: Encoding, rollout: Rollout, *, unit_log: bool
) -> Lineages:
    """Named calls go by name; an unnamed one joins the longest context it extends.

    If it extends none, it joins the first lineage whose first message is the same (in a log of
    units: first id; in a token log without messages: first `SAME_START` ids), else starts one.
    """
    names: list[str] = []
    openings: list[str | Ints] = []
    latest_tip: list[int] = []
    of_call = np.zeros(len(rollout.calls), dtype=np.int64)
    for index, (call, tokens) in enumerate(zip(rollout.calls, encoding.calls, strict=True)):
        opening = _opening(tokens, unit_log=unit_log)
        if call.lineage is not None:
            lineage = names.index(call.lineage) if call.lineage in names else len(names)
        else:
            lineage = _extended(trie, latest_tip, int(trie.tip[index]), tokens.prompt_length)
            if lineage < 0:
                same = (i for i, first in enumerate(openings) if _same_start(first, opening))
                lineage = next(same, len(names))
        if lineage == len(names):
            names.append(call.lineage or _fresh_name(names))
            openings.append(opening)
            latest_tip.append(-1)
        latest_tip[lineage] = int(trie.tip[index])
        of_call[index] = lineage
    return Lineages(of_call, tuple(names))


def _opening(tokens: CallTokens, *, unit_log: bool) -> str | Ints:
    if tokens.spans:
        return tokens.spans[0].message
    return tokens.head(min(1 if unit_log else SAME_START, tokens.prompt_length))


def _same_start(first: str | Ints, opening: str | Ints) -> bool:
    if isinstance(first, str) or isinstance(opening, str):
        return isinstance(first, str) and isinstance(opening, str) and first == opening
    return len(first) > 0 and np.array_equal(first, opening[: len(first)])


def _extended(trie: Trie, latest_tip: list[int], tip: int, prompt_length: int) -> int:
    """The lineage with the longest latest context that starts the prompt, -1 if there is none."""
    best, best_depth = -1, 0
    for lineage, before in enumerate(latest_tip):
        if before < 0:
            continue
        segment = int(np.searchsorted(trie.start, before, side="right")) - 1
        size = int(trie.depth[segment] + before - trie.start[segment]) + 1
        if before <= tip < trie.exit[segment] and best_depth < size <= prompt_length:
            best, best_depth = lineage, size
    return best


def _fresh_name(names: list[str]) -> str:
    candidate = "main" if not names else f"agent-{len(names) + 1}"
    return candidate if candidate not in names else f"{candidate}-unnamed"
