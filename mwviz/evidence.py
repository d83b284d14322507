"""Rebuilt contexts against what the provider counted: prompt tokens and tokens read from its cache.

Reported prompt sizes are fitted as a straight line over the rebuilt ones, with one slope for the
rollout and one offset for each stretch of a lineage between two junctions: the slope is the ratio
of two tokenizers, an offset is text that is not in the log. Letters: C calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mwviz.junctions import Junction
from mwviz.retokenised import Retokenised
from mwviz.rollout import Rollout
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.wording import counted

LEAST = 3
"""Calls with different sizes in one stretch that a line needs."""
NOTICED = 3_000
"""Tokens by which a call may be off the line, or the cache hold more than was shared."""


@dataclass(frozen=True, slots=True)
class Off:
    """One call whose reported number the rebuilt context cannot explain."""

    call: int
    reported: int
    """Tokens that the provider reported."""
    expected: int
    """Tokens that follow from the rebuilt text: on the line, or at most in the cache."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Reported prompt tokens over rebuilt ones."""

    calls: int
    """Calls with a reported prompt size."""
    slope: float
    """Reported tokens for each rebuilt one."""
    offset: int
    """Median over calls of the reported tokens that the rebuilt text does not account for."""
    error: int
    """Median distance of a call from the line, in reported tokens."""
    share: float
    """That error as a share of the median reported size."""
    off: tuple[Off, ...]
    """Calls more than `NOTICED` tokens from the line, in call order."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Cached tokens as a bound: they were the start of this prompt and of an earlier context."""

    calls: int
    """Calls whose bound was looked at."""
    broken: tuple[Off, ...]
    """Calls whose cache held more than the rebuilt contexts share with any before."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What other numbers of the log say of the contexts; None where they say nothing."""

    usage: Fit | None
    cache: Cache | None
    retokenised: Retokenised | None
    """How many recorded ids are not what their own text gives."""


def evidence(
    tree: EvictionTree,
    rollout: Rollout,
    junctions: tuple[Junction, ...],
    again: Retokenised | None = None,
) -> Evidence:
    """The provider's numbers against the rebuilt contexts, beside what retokenising changes."""
    usages = [call.usage for call in rollout.calls]
    reported = np.array([(u.prompt or 0) if u else 0 for u in usages], dtype=np.int64)
    cached = np.array([(u.cached or 0) if u else 0 for u in usages], dtype=np.int64)
    stretch = _stretches(tree, junctions)
    line = _line(tree.prompt_length, reported, stretch)
    if line is None:
        return Evidence(None, None, again)
    return Evidence(_fit(line, reported), _cache(tree, line.slope, reported, cached), again)


def doubts(found: Evidence) -> Iterator[str]:
    """Warnings: calls whose reported numbers the rebuilt contexts cannot explain."""
    if found.usage and found.usage.off:
        calls, first = _calls(found.usage.off)
        yield (
            f"{calls}: the provider counted {first.reported:,} prompt tokens where the rebuilt "
            f"text gives {first.expected:,}: text that is not in the log came or went"
        )
    if found.cache and found.cache.broken:
        calls, first = _calls(found.cache.broken)
        yield (
            f"{calls}: {first.reported:,} prompt tokens came from the provider's cache, but as "
            f"rebuilt at most {first.expected:,} had been sent before: less changed than it seems"
        )


def told(found: dict[str, Any]) -> Iterator[str]:
    """Lines of `mwviz inspect` on the evidence, as its JSON has it."""
    if usage := found["usage"]:
        yield (
            f"reported tokens: {usage['slope']:.3f} for each rebuilt one + {usage['offset']:,} not "
            f"in the log, error {usage['error']:,} ({usage['share']:.2%}) over "
            f"{counted(usage['calls'], 'call')}"
        )
    if cache := found["cache"]:
        yield (
            f"cached tokens: bound kept in {cache['calls'] - len(cache['broken']):,} of "
            f"{counted(cache['calls'], 'call')}"
        )
    if again := found["retokenised"]:
        text = "tokenised again: other ids in "
        text += _share(again["changed_completions"], again["completions"], "completions")
        if again["prompts"] is not None:
            text += f" and {_share(again['changed_prompts'], again['prompts'], 'prompts')}"
        yield text


def _share(part: int, whole: int, of: str) -> str:
    return f"{part:,} of {whole:,} {of} ({part / whole if whole else 0:.0%})"


def _calls(off: tuple[Off, ...]) -> tuple[str, Off]:
    first = off[0]
    if len(off) == 1:
        return f"call {first.call}", first
    return f"{len(off)} calls, the first {first.call}", first


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    slope: float
    offset: npt.NDArray[np.float64]
    """float64 (C,): of each call's stretch, in reported tokens."""
    expected: npt.NDArray[np.float64]
    """float64 (C,): reported tokens that the line gives."""


def _stretches(tree: EvictionTree, junctions: tuple[Junction, ...]) -> Longs:
    """int64 (C,): the stretch of each call; one ends where its lineage has a junction."""
    opens = {junction.call for junction in junctions}
    found = np.zeros(len(tree.tip), dtype=np.int64)
    latest: dict[int, int] = {}
    for call, lineage in enumerate(tree.lineage.tolist()):
        if lineage not in latest or call in opens:
            latest[lineage] = call
        found[call] = latest[lineage]
    return found


def _line(size: Longs, reported: Longs, stretch: Longs) -> _Line | None:
    """The common slope by least squares within stretches; None if no stretch can give one."""
    told = reported > 0
    over = under = 0.0
    for one in np.unique(stretch[told]):
        own = told & (stretch == one)
        if len(np.unique(size[own])) < LEAST:
            continue
        apart = size[own] - size[own].mean()
        over += float(apart @ (reported[own] - reported[own].mean()))
        under += float(apart @ apart)
    if under == 0 or over <= 0:
        return None
    slope = over / under
    offset = np.zeros(len(size), dtype=np.float64)
    for one in np.unique(stretch):
        own = stretch == one
        left = (reported - slope * size)[own & told]
        offset[own] = np.median(left) if len(left) else np.nan
    return _Line(slope, offset, slope * size + offset)


def _fit(line: _Line, reported: Longs) -> Fit:
    told = reported > 0
    distance = np.abs(reported - line.expected)
    error = float(np.median(distance[told]))
    off = [
        Off(int(call), int(reported[call]), round(float(line.expected[call])))
        for call in np.flatnonzero(told & (distance > NOTICED))
    ]
    return Fit(
        calls=int(told.sum()),
        slope=round(line.slope, 4),
        offset=round(float(np.median(line.offset[told]))),
        error=round(error),
        share=round(error / float(np.median(reported[told])), 5),
        off=tuple(off),
    )


def _cache(tree: EvictionTree, slope: float, reported: Longs, cached: Longs) -> Cache | None:
    """What the cache can have held: all of a prompt but what no context before it shows.

    A lineage's first call is left out: the cache may know calls that the log does not.
    """
    looked = (cached > 0) & (reported > 0) & (tree.previous >= 0)
    if not looked.any():
        return None
    broken = []
    for call, segments in enumerate(tree.call_paths()):
        if not looked[call]:
            continue
        old = segments[tree.first_call[segments] < call]
        shared = min(
            int(tree.depth[old[-1]] + tree.length[old[-1]]) if len(old) else 0,
            int(tree.prompt_length[call]),
        )
        most = reported[call] - slope * (tree.prompt_length[call] - shared)
        if cached[call] > most + NOTICED:
            broken.append(Off(call, int(cached[call]), round(float(most))))
    return Cache(int(looked.sum()), tuple(broken))
