"""What one view does to one rollout, as plain numbers and one sentence; knows no model, no drawing.

Drift is in nats; every number comes with its token set, its coverage and the floor. Letters: M
targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.errors import ViewError
from mwviz.judging import CLASSES, COUNTED
from mwviz.leaks import MISSING, KeySpan, sources
from mwviz.metrics import Measured
from mwviz.summary import fidelity
from mwviz.views import METHODS
from mwviz.wording import counted, digits, percent

if TYPE_CHECKING:
    import pandas as pd

NOISE = 10
"""Times the floor that the largest drift of a view without any diverging token may reach.

The floor is a percentile of just such drift, so the largest of it lies a little above.
"""
DOUBTS = {
    "exact": "",
    "rebuilt": "The contexts are rebuilt from an event log.",
    "partial": "The contexts lack text that the log does not hold: counts are of what is known.",
    "unknown": "Some contexts are unknown: all counts are of what the log tells, at least these.",
}
"""What a verdict cannot know, by the fidelity of the contexts."""
PLAIN = {
    "agree": "It sees {n} that it also saw when it was sampled.",
    "future": "It sees {n} written after it: time travel.",
    "erased": "It misses {n} that it saw: a later eviction is applied too early.",
    "stale": "It sees {n} that had already left its context.",
    "foreign": "It sees {n} of another agent or of a parallel sample.",
    "lost": "It misses {n} that it saw: the view leaves them out.",
    "shifted": "Of those it saw, the view shows {n} at another distance.",
    "duplicate": "It sees {n} a second time.",
    "tainted": "Of those it saw, the model computes {n} from another context.",
}
"""What a pair class or flag means for one token, in words."""


CASES = {
    "travel": "",
    "future": "future text in",
    "erased": "seen text gone",
    "stale": "evicted text still in",
    "foreign": "text of other agents in",
    "lost": "seen text left out",
    "shifted": "text at other distances",
    "duplicate": "text shown twice",
}
"""What is wrong with the contexts of a view, by what tokens have a key of, the worst first."""


class Worst(NamedTuple):
    """The covered token whose |drift| is largest."""

    target: int
    call: int
    offset: int
    drift: float
    """Nats."""
    sources: tuple[KeySpan, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """One view of one rollout in numbers."""

    method: str
    targets: int
    """Sampled tokens of the rollout."""
    covered: int
    """Those that the view trains."""
    diverging: int
    """Covered ones whose context differs from the true one."""
    repeated: int
    """Covered ones that train more than once."""
    hit: dict[str, int]
    """Covered targets with at least one key of each class or flag; `travel`: future or erased."""
    drift: Measured | None
    """Over all covered targets; None if the view or its reference is not scored."""
    drift_diverging: Measured | None
    above: int
    """Covered targets with |drift| above the floor."""
    floor: float | None
    """Smallest |drift| that may be highlighted, nats."""
    worst: Worst | None
    """None without scores, or if nothing is above the floor."""
    fidelity: str
    """How sure the contexts are, from `exact` to `unknown`."""

    @property
    def coverage(self) -> float | None:
        """Share of all sampled tokens that the view trains, 0 to 1; None if nothing was sampled."""
        return self.covered / self.targets if self.targets else None

    @property
    def headline(self) -> str:
        """Which tokens are trained, and under which contexts: our words only."""
        more = f" {self.repeated:,} of them train more than once." if self.repeated else ""
        return _conditions(self) + more

    @property
    def detail(self) -> str:
        """How far it drifts and where most. Kinds of messages in it are the trace's: plain text."""
        parts = [_drift(self), _worst(self)]
        parts.append(DOUBTS[self.fidelity])
        return " ".join(part for part in parts if part)

    @property
    def sentence(self) -> str:
        """Headline and detail in one."""
        return f"{self.headline} {self.detail}".strip()


def judge(analysis: Analysis, method: str, comparison: Comparison | None = None) -> Verdict:
    """The verdict on one view.

    Args:
        analysis: of the rollout.
        method: the view.
        comparison: of that view with the true contexts; None if it is not scored.

    Raises:
        ViewError: no method has this name.
    """
    found = None if comparison is None else worst(analysis, comparison)
    return _verdict(analysis, method, comparison, found)


def _verdict(
    analysis: Analysis, method: str, comparison: Comparison | None, found: Worst | None
) -> Verdict:
    view, pairs = analysis.view(method), analysis.pairs(method)
    times = view.multiplicity
    hit = {name: int(np.count_nonzero(pairs.of(name))) for name in COUNTED}
    hit["travel"] = int(np.count_nonzero(pairs.of("future") + pairs.of("erased")))
    return Verdict(
        method=method,
        targets=view.targets,
        covered=int(np.count_nonzero(times)),
        diverging=int(pairs.diverging.sum()),
        repeated=int(np.count_nonzero(times > 1)),
        hit=hit,
        drift=comparison.drift() if comparison else None,
        drift_diverging=comparison.drift("diverging") if comparison else None,
        above=int(comparison.table["notable"].sum()) if comparison else 0,
        floor=comparison.threshold if comparison else None,
        worst=found,
        fidelity=fidelity(analysis),
    )


def refusal(analysis: Analysis, method: str) -> str:
    """Why a view cannot lay out a rollout; "" if it can."""
    try:
        analysis.view(method)
    except ViewError as error:
        return str(error)
    return ""


def explain(analysis: Analysis, view: str, target: int) -> tuple[str, ...]:
    """What one target sees and misses under a view: a sentence for each class of its pairs."""
    pairs = analysis.pairs(view)
    counts = {name: int(pairs.of(name)[target]) for name in COUNTED}
    times = int(analysis.view(view).multiplicity[target])
    told = [PLAIN[name].format(n=counted(n, "token")) for name, n in counts.items() if n]
    if times > 1:
        told.append(f"It trains {times} times; these counts add up over all of them.")
    return tuple(told)


def worst(analysis: Analysis, comparison: Comparison) -> Worst | None:
    """The covered token with the largest |drift|; None if none is more than noise."""
    table = comparison.table
    size = np.nan_to_num(table["drift"].abs().to_numpy(dtype=np.float64))
    limit = comparison.threshold * (1 if table["diverging"].any() else NOISE)
    if not len(size) or size.max() <= limit:
        return None
    target = int(size.argmax())
    row = table.iloc[target]
    found = sources(analysis, comparison.view.method, target)
    return Worst(target, int(row["call"]), int(row["offset"]), float(row["drift"]), found)


def overview(analysis: Analysis, comparisons: Mapping[str, Comparison]) -> pd.DataFrame:
    """One row a view: coverage, diverging targets, pairs by class, and drift where it is scored.

    Args:
        analysis: of the rollout.
        comparisons: by method; a method without one has no drift.
    """
    import pandas as pd

    rows: list[dict[str, object]] = []
    known = "" if fidelity(analysis) == "exact" else " for what the log holds"
    for method in METHODS:
        reason = refusal(analysis, method.name)
        if reason:
            rows.append({"view": method.name, "note": reason})
            continue
        verdict = _verdict(analysis, method.name, comparisons.get(method.name), None)
        totals = analysis.pairs(method.name).totals
        pairs = {name: totals[name] for name in CLASSES if name != "agree"}
        times = np.unique(analysis.view(method.name).multiplicity)
        rows.append(
            {
                "view": method.name,
                "coverage": float("nan") if verdict.coverage is None else verdict.coverage,
                "diverging": verdict.diverging,
                "mean |d|": _value(verdict.drift, "mean_abs"),
                "diverging mean": _value(verdict.drift_diverging, "mean_abs"),
                "max |d|": _value(verdict.drift, "max_abs"),
                "floor": float("nan") if verdict.floor is None else verdict.floor,
                **pairs,
                "multiplicity": ", ".join(str(n) for n in times if n),
                "note": f"exact{known}" if method.exact else "",
            }
        )
    return pd.DataFrame(rows)


def _value(measured: Measured | None, name: str) -> float:
    """One metric; NaN where nothing was measured."""
    return measured.values.get(name, float("nan")) if measured else float("nan")


def _conditions(verdict: Verdict) -> str:
    """Which tokens are trained, and under which contexts."""
    name, total = verdict.method, f"{verdict.targets:,}"
    share = f"{percent(verdict.coverage)} coverage"
    if not verdict.targets:
        return f"Nothing was sampled in this rollout: {name} has nothing to train."
    if verdict.covered == 0:
        return f"{name} trains none of the {total} sampled tokens."
    sure = "true" if verdict.fidelity == "exact" else "known"
    if verdict.diverging == 0:
        part = f"{verdict.covered:,} of {total} sampled tokens, each"
        trained = part if verdict.covered < verdict.targets else "every sampled token"
        return f"{name} trains {trained} in its {sure} context; {share}."
    case = next(name for name in CASES if verdict.hit[name])
    count, how = verdict.hit[case], CASES[case]
    if case == "travel":
        wrong = [CASES[name] for name in ("future", "erased") if verdict.hit[name]]
        how = ", ".join(wrong)
    part = f"{count:,} of {total} sampled tokens"
    return f"{name} trains {part} in a wrong context: {how}; {share}."


def _drift(verdict: Verdict) -> str:
    if verdict.drift is None or verdict.drift_diverging is None:
        return "Drift: not run yet."
    if not verdict.drift.targets:
        return ""
    assert verdict.floor is not None, "a drift comes with its floor"
    floor = f"{digits(verdict.floor)} nats"
    most = verdict.drift.values["max_abs"]
    if verdict.worst is None:
        return f"Drift is at the floor: at most {digits(most)} nats (floor {floor})."
    if verdict.drift_diverging.targets:
        mean = verdict.drift_diverging.values["mean_abs"]
        return (
            f"Mean |drift| on its {counted(verdict.diverging, 'diverging token')}: {mean:.2f} nats "
            f"(floor {floor})."
        )
    return (
        f"{verdict.above:,} of {verdict.covered:,} tokens drift above the floor of {floor} though "
        f"no context differs, at most {digits(most)} nats: the kernel does not keep the mask."
    )


def _worst(verdict: Verdict) -> str:
    found = verdict.worst
    if found is None:
        return ""
    told = f"Worst: call {found.call:,}, token {found.offset:,}, {found.drift:+.2f} nats"
    causes = []
    for verb, how, classes in (
        ("misses", "", MISSING),
        ("sees", " from the future", ("future",)),
        ("sees", " that it never saw", ("stale", "foreign")),
    ):
        spans = [span for span in found.sources if span.name in classes]
        if spans:
            total, most = sum(span.tokens for span in spans), spans[0]
            first = "longest: " if len(spans) > 1 else ""
            causes.append(f"{verb} {counted(total, 'token')}{how} ({first}{most.place})")
    return f"{told}: it {' and '.join(causes)}." if causes else f"{told}."
