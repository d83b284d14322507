"""What the numbers of the Debug page depend on, in a line or two of our own words."""

from __future__ import annotations

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.display import visible
from mwviz.rendering import NEUTRAL, RECORDED
from mwviz.summary import fidelity
from mwviz.verdict import Verdict
from mwviz.wording import counted, digits, percent
from mwviz_app.scored import name_of

UNSCORED = "No model has scored this view: structure and pair counts need none."


def sizes(analysis: Analysis, own: Analysis, found: Verdict) -> tuple[str, ...]:
    """How large the rollout is and what one view makes of it, whether or not it is scored.

    Args:
        analysis: in the tokens that are shown.
        own: in those of the trace.
        found: the verdict on the view.
    """
    rows = analysis.view(found.method).rows
    evictions = sum(junction.is_eviction for junction in analysis.junction_list)
    share = percent(found.coverage, gap="\N{NO-BREAK SPACE}")
    return (
        counted(len(analysis.rollout.calls), "call"),
        visible(_tokens(analysis, own), keep=""),
        counted(evictions, "eviction"),
        f"contexts {fidelity(analysis)}",
        f"{found.method}: {counted(len(rows), 'row')} of "
        f"{counted(sum(row.size for row in rows), 'token')}",
        f"{found.covered:,} of {counted(found.targets, 'sampled token')} trained "
        f"(coverage {share})",
    )


def _tokens(analysis: Analysis, own: Analysis) -> str:
    """How many, and in whose tokens, beside those of the trace."""
    told = counted(analysis.tree.size, "token")
    if analysis.encoding.rendering == RECORDED:
        return told
    told += f" by the {_words(analysis.encoding.rendering)}"
    if own is not analysis:
        form = "as recorded" if own.encoding.rendering == RECORDED else "in the neutral form"
        told += f", {own.tree.size:,} {form}; same calls"
    return told


def scored(comparison: Comparison | None) -> str:
    """Which model scored a view, and below which drift all is noise."""
    if comparison is None:
        return UNSCORED
    view = comparison.view
    told = f"{name_of(view.model)} · {view.dtype} · floor {digits(comparison.threshold)} nats"
    return visible(told, keep="")


def kernel(comparison: Comparison | None) -> str:
    """Which attention kernel scored a view."""
    return f"kernel {comparison.view.kernel}" if comparison else "not scored"


def _words(rendering: str) -> str:
    return "neutral form" if rendering == NEUTRAL else rendering


def full(comparison: Comparison | None) -> str:
    """What the numbers of a comparison depend on, in full."""
    if comparison is None:
        return UNSCORED
    view, floor = comparison.view, comparison.view.floor
    told = (
        f"{view.model}, {view.dtype} on {view.device}, kernel {view.kernel}; floor "
        f"{digits(comparison.threshold)} nats, from {counted(floor.targets, 'token')} scored by "
        f"two exact methods (median {digits(floor.p50)}); "
        f"coverage {percent(comparison.coverage)}"
    )
    return "; ".join([told, *view.notes])
