"""The numbers of `mwviz score --details` as lines of text, each with its unit and token set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mwviz.wording import counted

Report = dict[str, Any]


def details(told: Report) -> Iterator[str]:
    """The lines of one method.

    Args:
        told: what `mwviz.account.account` gave, with the cost.
    """
    yield from _gap(told["gap"])
    yield _distances(told["distances"])
    for one in told["junctions"]:
        yield (
            f"  junction before call {one['call']} ({one['kind']}): over {one['targets']:,} "
            f"diverging tokens KL {one['kl']:.3g} nats, TV {one['tv']:.3g} of at most "
            f"{one['tv_bound']:.3g}, {one['flips']:,} flips"
        )
    yield _policy(told["policy"])
    if "cost" in told:
        yield f"cost: {told['cost']['told']}"


def pooled_lines(told: Report) -> Iterator[str]:
    """The lines of one method over all rollouts of a file.

    Args:
        told: what `mwviz.account.pooled` gave.
    """
    yield _estimate(told["estimate"])
    whole = told["trajectory"]
    yield f"trajectory TV at most {whole['value']:.3g}: {whole['label']}"


def _gap(told: Report) -> Iterator[str]:
    if "refused" in told:
        yield f"gap: none; {told['refused']}"
        return
    parts = ", ".join(
        f"{part['name']} {part['mean']:+.3g} ({counted(part['targets'], 'token')})"
        for part in told["parts"]
    )
    yield f"gap: {told['gap']:+.3g} nats a token over {told['targets']:,}: {parts}"
    for note in told["notes"]:
        yield f"  {note}"


def _estimate(told: Report) -> str:
    if "refused" in told:
        return f"estimate from log-probabilities alone: none; {told['refused']}"
    return (
        f"estimate from log-probabilities alone: {told['label']} {told['mean']:.3g} nats a token, "
        f"95% {told['low']:.3g} to {told['high']:.3g} "
        f"({counted(told['targets'], 'diverging token')} on "
        f"{counted(told['leaves'], 'branch', 'branches')}); "
        f"holds if {'; '.join(told['conditions'])}"
    )


def _distances(told: Report) -> str:
    mean = told["mean"]
    return (
        f"distances over {counted(told['targets'], 'covered token')}: KL {told['kl']:.3g} nats, "
        f"reverse {told['kl_reverse']:.3g}, JS {told['js']:.3g}, TV {mean['measured']:.3g} of at "
        f"most {mean['value']:.3g}, {counted(told['flips'], 'flip')}, "
        f"{told['broken']:,} above their bound"
    )


def _policy(told: Report) -> str:
    if "refused" in told:
        return f"policy gradient: none; {told['refused']}"
    low, high = told["clip"]
    return (
        f"policy gradient: {told['clipped']:,} of {counted(told['targets'], 'token')} clipped "
        f"({told['clipped_share']:.1%}) outside [{low}, {high}], advantages from "
        f"{told['advantages']}, ratios of the {told['ratios']}; mean |factor| "
        f"{told['mean_abs_factor']:.3g}; {counted(told['unknown'], 'token')} without a recorded "
        "log-probability"
    )
