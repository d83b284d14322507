"""What the numbers of the Debug page depend on, in a line or two of our own words."""

from __future__ import annotations

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.display import visible
from mwviz.rendering import NEUTRAL, RECORDED
from mwviz.summary import fidelity
from mwviz.verdict import Verdict
from mwviz.wording import counted
from mwviz_app.scored import name_of

UNSCORED = "No model has scored this view: structure and pair counts need none."


def sizes(analysis: Analysis, found: Verdict) -> str:
    """How large the rollout is and what one view makes of it, whether or not it is scored."""
    rows = analysis.view(found.method).rows
    evictions = sum(junction.is_eviction for junction in analysis.junction_list)
    parts = [
        counted(len(analysis.rollout.calls), "call"),
        counted(analysis.tree.size, "token"),
        counted(evictions, "eviction"),
        f"contexts {fidelity(analysis)}",
        f"{found.method}: {counted(len(rows), 'row')} of "
        f"{counted(sum(row.size for row in rows), 'token')}",
        f"{found.covered:,} of {counted(found.targets, 'sampled token')} trained "
        f"(coverage {100 * found.coverage:.0f}\N{NO-BREAK SPACE}%)",
    ]
    return " · ".join(parts)


def short(comparison: Comparison | None, analysis: Analysis, own: Analysis) -> str:
    """What was scored by what, and in whose tokens, beside those of the trace."""
    if comparison is None:
        return UNSCORED
    view, encoding = comparison.view, analysis.encoding
    told = f"Scored by {name_of(view.model)} · {view.dtype} · kernel {view.kernel}"
    told += f" · judged by {comparison.reference.method} · floor {comparison.threshold:.2g} nats"
    if encoding.rendering == RECORDED:
        return told
    told += f" · {counted(analysis.tree.size, 'token')} by the {_words(encoding.rendering)}"
    if own is not analysis:
        form = "as recorded" if own.encoding.rendering == RECORDED else "in the neutral form"
        told += f", {own.tree.size:,} {form}; same calls"
    return visible(told, keep="")


def _words(rendering: str) -> str:
    return "neutral form" if rendering == NEUTRAL else rendering


def full(comparison: Comparison | None) -> str:
    """What the numbers of a comparison depend on, in full."""
    if comparison is None:
        return UNSCORED
    view, floor = comparison.view, comparison.view.floor
    told = (
        f"{view.model}, {view.dtype} on {view.device}, kernel {view.kernel}; floor "
        f"{comparison.threshold:.2g} nats, from {counted(floor.targets, 'token')} scored by two "
        f"exact methods (median {floor.p50:.1g}); coverage {100 * comparison.coverage:.0f} %"
    )
    return "; ".join([told, *view.notes])
