"""The numbers of `mwviz score --details` as lines of text, each with its unit and token set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
        f"{part['name']} {part['mean']:+.3g} ({part['targets']:,} tokens)" for part in told["parts"]
    )
    yield f"gap: {told['gap']:+.3g} nats a token over {told['targets']:,}: {parts}"
    for note in told["notes"]:
        yield f"  {note}"


def _estimate(told: Report) -> str:
    if "refused" in told:
        return f"estimate from log-probabilities alone: none; {told['refused']}"
    return (
        f"estimate from log-probabilities alone: {told['label']} {told['mean']:.3g} nats a token, "
        f"95% {told['low']:.3g} to {told['high']:.3g} ({told['targets']:,} diverging tokens on "
        f"{told['leaves']:,} branches); holds if {'; '.join(told['conditions'])}"
    )


def _distances(told: Report) -> str:
    mean = told["mean"]
    return (
        f"distances over {told['targets']:,} covered tokens: KL {told['kl']:.3g} nats, reverse "
        f"{told['kl_reverse']:.3g}, JS {told['js']:.3g}, TV {mean['measured']:.3g} of at most "
        f"{mean['value']:.3g}, {told['flips']:,} flips, {told['broken']:,} above their bound"
    )


def _policy(told: Report) -> str:
    if "refused" in told:
        return f"policy gradient: none; {told['refused']}"
    low, high = told["clip"]
    return (
        f"policy gradient: {told['clipped']:,} of {told['targets']:,} tokens clipped "
        f"({told['clipped_share']:.1%}) outside [{low}, {high}], advantages from "
        f"{told['advantages']}, ratios of the {told['ratios']}; mean |factor| "
        f"{told['mean_abs_factor']:.3g}; {told['unknown']:,} tokens without a recorded "
        "log-probability"
    )
