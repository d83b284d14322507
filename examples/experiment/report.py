"""`docs/experiment.md` from the results alone: a verdict a claim, with numbers and limits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.experiment.arms import PARTS
from examples.experiment.charts import by_count, draw, over_steps
from examples.experiment.results import (
    Run,
    Spread,
    last_of,
    mean_of,
    over_seeds,
    read_results,
    spread,
)
from examples.experiment.scales import HELD_OUT, SCALES

EXACT = "packed_mask"
GRPO = ("grpo-prune", "grpo-summary")
FLOOR = 1e-4
"""Nats up to which a mean difference in float32 counts as none."""
CLEAR = 100.0
"""A difference by this factor is one whatever the number of seeds."""
LEAST = 30
"""Targets behind a mean by evictions."""
YES, NO, OPEN = "reproduced", "not reproduced", "undecided"

Number = Callable[[Run], float | None]


class Finding(NamedTuple):
    """One claim and what became of it."""

    claim: str
    verdict: str
    why: str


def write_report(results: Path, out: Path) -> None:
    """Writes the page and, in a folder beside it, its charts.

    Args:
        results: what the arms wrote.
        out: the page.
    """
    runs = read_results(results)
    if not runs:
        raise SystemExit(f"{results}: no results in it; run the experiment first")
    charts = out.parent / out.stem
    grpo = [part for part in GRPO if any(run.part == part for run in runs)]
    figures = {
        f"gap-{part}": over_steps(
            runs,
            part,
            _per_step("gap"),
            title=f"{part}: train-rollout gap on the current batch",
            axis="mean |gap|, nats",
            log=True,
        )
        for part in grpo
    }
    figures |= {
        f"evictions-{part}": by_count(
            runs,
            part,
            _kl_by_evictions,
            title=f"{part}: KL(true || view) by evictions",
            axis="nats",
        )
        for part in grpo
    }
    figures |= {
        f"reward-{part}": over_steps(
            runs,
            part,
            _smooth("reward"),
            title=f"{part}: training reward, mean of 5 steps",
            axis="share answered right",
        )
        for part in grpo
    }
    if any(run.part == "sft" for run in runs):
        figures["sft-nll"] = over_steps(
            runs,
            "sft",
            _per_look("nll_true"),
            title="sft: held-out loss in the true contexts",
            axis="nats a token",
            log=True,
        )
        figures["sft-kl"] = over_steps(
            runs,
            "sft",
            _per_look("kl_diverging"),
            title="sft: KL(true || view), diverging tokens",
            axis="nats",
            log=True,
        )
    drawn = draw(figures, charts)
    out.write_text("\n".join(_page(runs, [path.stem for path in drawn], charts.name)) + "\n")


def _page(runs: Sequence[Run], charts: Sequence[str], folder: str) -> Iterator[str]:
    yield "# Experiment"
    yield ""
    yield (
        "The claims of *MemoryWalker* (arXiv 2609.00865) about training under context compression, "
        "tried at a small scale: SmolLM2-135M-Instruct with an adapter of rank 8 in float32, an "
        "agent that answers questions of three hops in an invented world (`examples/search_world`)."
        " The paper trains models of 4B and more for far longer: what does not show here may show "
        "there, and the other way round."
    )
    yield ""
    yield "Made by `python -m examples.reproduce report`; nothing on this page is written by hand."
    yield ""
    yield "| claim | here | why |"
    yield "|---|---|---|"
    for found in _findings(runs):
        yield f"| {found.claim} | **{found.verdict}** | {found.why} |"
    yield ""
    yield (
        "Numbers are means over seeds, with the smallest and the largest seed in brackets. A claim "
        "is *reproduced* or *not reproduced* where the seeds of the two arms do not overlap, and "
        f"*undecided* where they do or where an arm has one seed only, unless they differ by a "
        f"factor of {CLEAR:.0f}. Rewards are widened by two standard errors of their questions."
    )
    for part in PARTS:
        yield from _part(runs, part)
    yield ""
    yield "## Charts"
    for name in charts:
        yield ""
        yield f"![{name}]({folder}/{name}.png)"
    yield from _limits(runs)


def _part(runs: Sequence[Run], part: str) -> Iterator[str]:
    here = [run for run in runs if run.part == part]
    if not here:
        return
    columns: dict[str, Number] = {
        "sft": {
            "held-out loss, true contexts": lambda run: last_of(run, "look", "nll_true"),
            "drift": lambda run: last_of(run, "look", "drift"),
            "drift, diverging": lambda run: last_of(run, "look", "drift_diverging"),
            "KL, diverging": lambda run: last_of(run, "look", "kl_diverging"),
            "TV / bound": _tv_share,
            "coverage": lambda run: last_of(run, "look", "coverage"),
            "reward": _reward,
        }
    }.get(
        part,
        {
            "gap, first batch": _first_gap,
            "gap": lambda run: mean_of(run, "step", "gap"),
            "gap, diverging": lambda run: mean_of(run, "step", "gap_diverging"),
            "clipped": lambda run: mean_of(run, "step", "clipped"),
            "KL, diverging": lambda run: last_of(run, "look", "kl_diverging"),
            "TV / bound": _tv_share,
            "coverage": lambda run: last_of(run, "look", "coverage"),
            "reward, first 3 steps": lambda run: mean_of(run, "step", "reward", range(3)),
            "reward, held out": _reward,
        },
    )
    yield ""
    yield f"## {part}"
    yield ""
    yield _setting(here)
    yield ""
    yield f"| arm | seeds | steps | {' | '.join(columns)} |"
    yield "|---|---|---|" + "---|" * len(columns)
    for arm in PARTS[part]:
        mine = [run for run in here if run.arm == arm]
        if mine:
            steps = "-".join(str(one) for one in sorted({run.steps for run in mine}))
            cells = [over_seeds(here, part, arm, number) or "-" for number in columns.values()]
            told = " | ".join(map(str, cells))
            yield f"| `{arm}` | {len(mine)} | {steps} | {told} |"


def _setting(runs: Sequence[Run]) -> str:
    start = runs[0].start
    asked = {line["questions"] for run in runs for line in run.of("reward")}
    held = f"{max(asked)} fixed held-out questions" if asked else "no held-out questions (cut off)"
    warm = ", from the demos' agent early in its training" if start.get("warm") else ""
    ended = sum(run.ended for run in runs)
    return (
        f"On {start['machine']}, at most {start['steps']} steps at a learning rate of "
        f"{start['rate']:g}{warm}; {held}; {ended} of {len(runs)} arms ran to their end."
    )


def _findings(runs: Sequence[Run]) -> Iterator[Finding]:
    for part in GRPO:
        if any(run.part == part for run in runs):
            yield from _gap_findings(runs, part)
    if any(run.part == "sft" for run in runs):
        yield from _sft_findings(runs)


def _gap_findings(runs: Sequence[Run], part: str) -> Iterator[Finding]:
    exact = over_seeds(runs, part, EXACT, lambda run: mean_of(run, "step", "gap"))
    for naive in ("rightmost", "replay"):
        gap = spread(_first_gap(run) for run in _started(runs, part, naive))
        yield Finding(
            f"{part}: `{naive}` inflates the train-rollout gap",
            _below(exact, gap),
            f"{gap} nats on the first batch, before any training, against {exact} of `{EXACT}` "
            "over all of its steps",
        )
    verdict = OPEN if exact is None else YES if exact.high < FLOOR else NO
    yield Finding(f"{part}: exact training stays at the floor", verdict, f"{exact} nats")
    yield _closing(runs, part, "sdcc", "rightmost")
    yield _rewards(runs, part)
    yield _growth(runs, part)


def _sft_findings(runs: Sequence[Run]) -> Iterator[Finding]:
    def last(arm: str, name: str) -> Spread | None:
        return over_seeds(runs, "sft", arm, lambda run: last_of(run, "look", name))

    for naive in ("rightmost", "replay", "sdcc", "sdcc_replay"):
        exact, other = last(EXACT, "nll_true"), last(naive, "nll_true")
        yield Finding(
            f"sft: exact training fits the true contexts better than `{naive}`",
            _below(exact, other),
            f"{exact} against {other} nats a token",
        )
    for pulled, naive in (("sdcc", "rightmost"), ("sdcc_replay", "replay")):
        lower, higher = last(pulled, "drift"), last(naive, "drift")
        yield Finding(
            f"sft: `{pulled}` drifts less than `{naive}`",
            _below(lower, higher),
            f"mean over trained tokens {lower} against {higher} nats",
        )
        yield _closing(runs, "sft", pulled, naive)
    yield _rewards(runs, "sft")


def _closing(runs: Sequence[Run], part: str, pulled: str, naive: str) -> Finding:
    """Whether SDCC ends with less than half of the KL that its student alone ends with."""
    claim = f"{part}: `{pulled}` closes most of the gap of `{naive}`"
    both = _at_same_step(runs, part, (pulled, naive))
    found, other = both[pulled], both[naive]
    if found is None or other is None:
        return Finding(claim, OPEN, "no step that both arms reached")
    verdict = OPEN
    if min(found.seeds, other.seeds) > 1:
        above = NO if found.low > other.high / 2 else OPEN
        verdict = YES if found.high < other.low / 2 else above
    return Finding(
        claim,
        verdict,
        f"KL on diverging tokens {found} against {other} nats: "
        f"{100 * (1 - found.mean / other.mean):.0f} % closed",
    )


def _at_same_step(runs: Sequence[Run], part: str, arms: Sequence[str]) -> dict[str, Spread | None]:
    """KL on diverging tokens at the last look, after training began, that all runs have."""
    curves = {
        arm: [_per_look("kl_diverging")(run) for run in runs if (run.part, run.arm) == (part, arm)]
        for arm in arms
    }
    steps = [set(curve) for found in curves.values() for curve in found]
    shared = set.intersection(*steps) - {0} if steps else set()
    if not shared:
        return dict.fromkeys(arms)
    return {arm: spread(curve[max(shared)] for curve in curves[arm]) for arm in arms}


def _rewards(runs: Sequence[Run], part: str) -> Finding:
    claim = f"{part}: exact training earns more reward on held-out questions"
    arms = (EXACT, "rightmost", "replay")
    ended = [run for run in runs if run.part == part and run.arm in arms and run.ended]
    steps = sorted({run.steps for run in ended})
    found = {arm: _widened(ended, part, arm) for arm in arms}
    exact, naive = found[EXACT], [found[arm] for arm in arms[1:]]
    told = "; ".join(f"`{arm}` {one or 'none ended'}" for arm, one in found.items())
    if exact is None or None in naive or len(steps) != 1:
        several = " after different numbers of steps" if len(steps) > 1 else ""
        return Finding(claim, OPEN, f"{told}{several}")
    best = max((one for one in naive if one is not None), key=lambda one: one.mean)
    return Finding(claim, _below(best, exact), f"{told}, after {steps[0]} steps")


def _growth(runs: Sequence[Run], part: str) -> Finding:
    """Whether the KL of the naive view is larger behind two or more evictions than behind one."""
    claim = f"{part}: the divergence grows with evictions"
    found = [_kl_by_evictions(run, {0}) for run in _started(runs, part, "rightmost")]
    curves = [curve for curve in found if len(curve) > 2]  # noqa: PLR2004
    if len(curves) < 2:  # noqa: PLR2004
        return Finding(claim, OPEN, "too few rollouts with several evictions")
    rising = [all(curve[k] > curve[1] for k in curve if k > 1) for curve in curves]
    told = "; ".join(", ".join(f"{k}: {c[k]:.2g}" for k in sorted(c)) for c in curves)
    verdict = YES if all(rising) else NO if not any(rising) else OPEN
    return Finding(
        claim,
        verdict,
        f"KL of `rightmost` on the first batch, nats by evictions, seed by seed: {told}",
    )


def _started(runs: Sequence[Run], part: str, arm: str) -> list[Run]:
    """A run a seed that looked at the first batch under this arm's row; SDCC scores `rightmost`."""
    rows = {"rightmost": ("rightmost", "sdcc")}.get(arm, (arm,))
    found: dict[int, Run] = {}
    for run in runs:
        if run.part == part and run.arm in rows and run.of("look"):
            found.setdefault(run.seed, run)
    return list(found.values())


def _below(lower: Spread | None, higher: Spread | None) -> str:
    if lower is not None and higher is not None and higher.low > CLEAR * lower.high:
        return YES
    if lower is None or higher is None or min(lower.seeds, higher.seeds) < 2:  # noqa: PLR2004
        return OPEN
    if lower.high < higher.low:
        return YES
    return NO if lower.low > higher.high else OPEN


def _widened(runs: Sequence[Run], part: str, arm: str) -> Spread | None:
    """Reward over seeds, and two standard errors of the questions on each side."""
    found = over_seeds(runs, part, arm, _reward)
    if found is None:
        return None
    asked = [
        sum(line["questions"] for line in run.of("reward"))
        for run in runs
        if (run.part, run.arm) == (part, arm) and run.of("reward")
    ]
    error = 2 * math.sqrt(max(found.mean * (1 - found.mean), 1e-9) / min(asked))
    return found._replace(low=max(found.low - error, 0.0), high=min(found.high + error, 1.0))


def _first_gap(run: Run) -> float | None:
    """Mean |gap| on the first batch, at the weights that sampled it.

    An exact view gives what was recorded to 1e-6 there, so an arm that broke off before its first
    step is read from its first look: the gap is then the drift.
    """
    naive = run.arm not in (EXACT, "control")
    for kind, name in (("step", "gap"), ("look", "drift"))[: 1 + naive]:
        first = run.of(kind)[:1]
        if first and first[0][name] is not None:
            return float(first[0][name])
    return None


def _reward(run: Run) -> float | None:
    return mean_of(run, "reward", "reward")


def _tv_share(run: Run) -> float | None:
    """Measured mean TV over its bound; above 1 would be a bug."""
    shares = [line["tv"] / line["tv_bound"] for line in run.of("look") if line.get("tv_bound")]
    return max(shares) if shares else None


def _per_step(name: str) -> Callable[[Run], dict[int, float]]:
    return lambda run: {
        line["step"]: line[name] for line in run.of("step") if line.get(name) is not None
    }


def _smooth(name: str) -> Callable[[Run], dict[int, float]]:
    def points(run: Run) -> dict[int, float]:
        values = [line[name] for line in run.of("step")]
        return {at: float(np.mean(values[max(0, at - 4) : at + 1])) for at in range(len(values))}

    return points


def _per_look(name: str) -> Callable[[Run], dict[int, float]]:
    return lambda run: {
        line["step"]: line[name] for line in run.of("look") if line.get(name) is not None
    }


def _kl_by_evictions(run: Run, steps: Container[int] = range(10**9)) -> dict[int, float]:
    """Mean KL by number of evictions, over the looks at some steps, weighted by targets."""
    total: dict[int, float] = defaultdict(float)
    count: dict[int, int] = defaultdict(int)
    for line in (one for one in run.of("junctions") if one["step"] in steps):
        for number, (mean, targets) in line["kl"].items():
            total[int(number)] += mean * targets
            count[int(number)] += targets
    return {number: total[number] / count[number] for number in total if count[number] >= LEAST}


def _short(runs: Sequence[Run]) -> Iterator[str]:
    """Where less was run than the script would run by itself."""
    for part, scale in SCALES.items():
        here = [run for run in runs if run.part == part]
        if not here:
            continue
        steps = max(run.steps for run in here)
        asked = max((line["questions"] for run in here for line in run.of("reward")), default=0)
        if steps < scale.steps or asked < HELD_OUT:
            yield (
                f"- {part}: time on the card was short, so the longest arm took {steps} of "
                f"{scale.steps} steps and answered {asked} of {HELD_OUT} held-out questions."
            )


def _limits(runs: Sequence[Run]) -> Iterator[str]:
    over = [
        line["tv_over_bound"]
        for run in runs
        for line in run.of("look")
        if line.get("tv_over_bound") is not None
    ]
    yield ""
    yield "## Limits"
    yield ""
    yield (
        "- One small model, one invented world, two or three seeds: ranges over seeds say how far "
        "runs lie apart, not what another model would do."
    )
    yield (
        "- Each batch is trained once, at the weights that sampled it, so the gap of an exact arm "
        "is the numerical floor; with stale batches it would not be."
    )
    yield (
        "- Rows of many rollouts are padded into one batch (`examples/experiment/batched.py`), "
        "which a test holds to `mwviz.training` step by step."
    )
    if over:
        yield (
            f"- Measured TV never exceeded its bound for a token by more than {max(over):.1g} "
            "(rounding)."
        )
    yield from _short(runs)
    cut = [run for run in runs if not run.ended]
    if cut:
        names = ", ".join(f"{run.part} {run.arm} {run.seed}" for run in cut)
        yield (
            f"- {len(cut)} of {len(runs)} arms broke off (out of memory: too many shared a card), "
            f"after the steps above: {names}. What they had measured by then is used."
        )
