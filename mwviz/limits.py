"""Limits a rollout must keep in continuous integration, and where it breaks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from mwviz.analysis import Analysis
from mwviz.summary import FIDELITY, fidelity
from mwviz.wording import counted


@dataclass(frozen=True, slots=True)
class Limits:
    """What `mwviz check` demands of one view; None leaves a rule out."""

    view: str
    max_future: int | None = None
    """Pairs in which a token looks at text written later."""
    max_stale: int | None = None
    """Pairs in which a token looks at text already evicted."""
    min_coverage: float | None = None
    """Share of sampled tokens that must be trained, 0 to 1; kept where nothing was sampled."""
    max_drift: float | None = None
    """Largest mean |drift| over covered targets, in nats; needs scores."""
    min_fidelity: str | None = None
    """How sure all contexts must be, one of `summary.FIDELITY`; no matter the view."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken limit."""

    rollout: str
    rule: str
    limit: float | str
    value: float | str
    where: str
    """The place that contributes most, in words."""

    def to_json(self) -> dict[str, Any]:
        """The finding as `mwviz check --format json` prints it."""
        return {
            "rollout": self.rollout,
            "rule": self.rule,
            "limit": self.limit,
            "value": self.value,
            "where": self.where,
        }


def findings(analysis: Analysis, limits: Limits, drift: float | None) -> list[Finding]:
    """The limits that a rollout breaks.

    Args:
        analysis: of the rollout.
        limits: to keep.
        drift: mean |drift| in nats, if it was measured.
    """
    found = _unsure(analysis, limits.min_fidelity) if limits.min_fidelity else []
    pairs, view = analysis.pairs(limits.view), analysis.view(limits.view)
    for rule, name, limit in (
        ("max-future", "future", limits.max_future),
        ("max-stale", "stale", limits.max_stale),
    ):
        value = pairs.totals[name]
        if limit is not None and value > limit:
            where = _worst_call(analysis, pairs.of(name), name)
            found.append(Finding(analysis.rollout.id, rule, limit, value, where))
    least, covered = limits.min_coverage, view.coverage
    if least is not None and covered is not None and covered < least:
        missing = "; ".join(f"{count:,} {reason}" for reason, count in view.uncovered)
        share = round(covered, 6)
        found.append(Finding(analysis.rollout.id, "min-coverage", least, share, missing))
    if limits.max_drift is not None and drift is not None and drift > limits.max_drift:
        where = f"mean over covered targets of {limits.view}"
        found.append(Finding(analysis.rollout.id, "max-drift", limits.max_drift, drift, where))
    return found


def _unsure(analysis: Analysis, limit: str) -> list[Finding]:
    """A finding if some context is less sure than it must be, with the first such call."""
    worst, least = fidelity(analysis), FIDELITY.index(limit)
    if FIDELITY.index(worst) <= least:
        return []
    lost = {junction.call for junction in analysis.junction_list if junction.depth is None}
    at, call = next(
        (at, call)
        for at, call in enumerate(analysis.rollout.calls)
        if at in lost or FIDELITY.index(call.content) > least
    )
    why = call.holes[0].why if call.holes else "the log does not say why"
    if at in lost:
        why = "the provider counted fewer tokens than before, and the log says nothing"
    where = f"from call {at} on: {why}"
    return [Finding(analysis.rollout.id, "min-fidelity", limit, worst, where)]


def junit(found: list[Finding], checked: int) -> str:
    """The findings as a JUnit XML document that CI systems show, in ASCII: no locale changes it."""
    suite = ElementTree.Element(
        "testsuite", name="mwviz check", tests=str(checked), failures=str(len(found))
    )
    for finding in found:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_printable(finding.rollout), name=finding.rule
        )
        text = f"{finding.value} against a limit of {finding.limit}: {finding.where}"
        ElementTree.SubElement(case, "failure", message=_printable(text))
    written: bytes = ElementTree.tostring(suite, encoding="us-ascii", xml_declaration=True)
    return written.decode()


def _printable(text: str) -> str:
    """Text without the characters that XML forbids."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _worst_call(analysis: Analysis, counts: np.ndarray, name: str) -> str:
    calls = analysis.tree.call
    per_call = np.bincount(calls, weights=counts, minlength=len(analysis.rollout.calls))
    worst = int(per_call.argmax())
    return f"call {worst}: {counted(int(per_call[worst]), f'{name} pair')}"
