"""`docs/experiment.md` from the results alone: a verdict a claim, with numbers and limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from examples.experiment.charts import by_count, draw, over_steps
from examples.experiment.findings import GRPO, Finding, findings_of
from examples.experiment.job import PARTS
from examples.experiment.readings import (
    Number,
    answered_after,
    asked_of,
    at_look,
    first_gap,
    kl_by_evictions,
    per_look,
    per_step,
    reward_of,
    shared_look,
    smooth,
    tv_share,
)
from examples.experiment.results import Run, mean_of, over_seeds, read_best
from examples.experiment.scales import HELD_OUT, SCALES
from examples.experiment.verdicts import CLEAR, NO, ONCE, OPEN, YES
from examples.experiment.why import explained


def write_report(results: Sequence[Path], out: Path) -> None:
    """Writes the page and, in a folder beside it, its charts.

    Args:
        results: what the arms wrote.
        out: the page.
    """
    runs = read_best(*results)
    if not runs:
        names = ", ".join(map(str, results))
        raise SystemExit(f"{names}: no results in it; run the experiment first")
    charts = out.parent / out.stem
    grpo = [part for part in GRPO if any(run.part == part for run in runs)]
    figures = {
        f"gap-{part}": over_steps(
            runs,
            part,
            per_step("gap"),
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
            kl_by_evictions,
            title=f"{part}: KL(true || view) by evictions",
            axis="nats",
        )
        for part in grpo
    }
    figures |= {
        f"reward-{part}": over_steps(
            runs,
            part,
            smooth("reward"),
            title=f"{part}: training reward, mean of 5 steps",
            axis="share answered right",
        )
        for part in grpo
    }
    if any(run.part == "sft" for run in runs):
        figures["sft-nll"] = over_steps(
            runs,
            "sft",
            per_look("nll_true"),
            title="sft: held-out loss in the true contexts",
            axis="nats a token",
            log=True,
        )
        figures["sft-kl"] = over_steps(
            runs,
            "sft",
            per_look("kl_diverging"),
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
    findings = list(findings_of(runs))
    yield _counted(findings)
    yield ""
    yield from _rewards(runs)
    yield "Made by `python -m examples.reproduce report`; nothing on this page is written by hand."
    yield ""
    yield "| claim | here | why |"
    yield "|---|---|---|"
    for found in findings:
        yield f"| {found.claim} | **{found.verdict}** | {found.why} |"
    yield ""
    yield (
        "Numbers are means over seeds, with the smallest and the largest seed in brackets; behind "
        "`x` is the ratio of two arms' geometric means with its 95 % interval over seeds (Welch's "
        "t on logarithms), before `more` the difference of two rewards with its own. A claim is "
        "*reproduced* or *not reproduced* where that interval leaves no doubt, *undecided* where "
        "it does. Where an arm has a single seed there is no interval: "
        f"*{ONCE}* says that it shows by a factor of more than {CLEAR:.0f}, and no more than that. "
        "Two or three seeds make wide intervals; many claims are looked at, so one in twenty of "
        "those without any effect would pass."
    )
    for part in PARTS:
        yield from _part(runs, part)
    yield from explained(runs)
    yield ""
    yield "## Charts"
    for name in charts:
        yield ""
        yield f"![{name}]({folder}/{name}.png)"
    yield from _limits(runs)


def _counted(findings: Sequence[Finding]) -> str:
    """The page in a sentence."""
    counts = Counter(found.verdict for found in findings)
    told = ", ".join(f"{counts[one]} {one}" for one in (YES, ONCE, NO, OPEN) if counts[one])
    return f"Of {len(findings)} claims: {told}. No claim rests on more than one small model."


def _rewards(runs: Sequence[Run]) -> Iterator[str]:
    """What the trained agents answer, at a glance: a row an arm, a column a part."""
    parts = [part for part in PARTS if any(run.part == part and run.of("reward") for run in runs)]
    if not parts:
        return
    yield (
        "Held-out questions answered right after training on each layout; `packed_mask` is exact, "
        "`control` is trained on rollouts without evictions and asked without them; `-` where none "
        "came to answer:"
    )
    yield ""
    yield f"| trained on | {' | '.join(_column(runs, part) for part in parts)} |"
    yield "|---|" + "---|" * len(parts)
    for arm in dict.fromkeys(arm for part in parts for arm in PARTS[part]):
        found = [over_seeds(runs, part, arm, reward_of) for part in parts]
        cells = ["-" if one is None else f"{one.mean:.0%}" for one in found]
        if any(found):
            yield f"| `{arm}` | {' | '.join(cells)} |"
    yield ""


def _column(runs: Sequence[Run], part: str) -> str:
    steps = {answered_after(run) for run in runs if run.part == part and run.of("reward")}
    return f"{part}, after {' or '.join(map(str, sorted(one for one in steps if one)))} steps"


def _part(runs: Sequence[Run], part: str) -> Iterator[str]:
    here = [run for run in runs if run.part == part]
    if not here:
        return
    step = shared_look(here)
    columns: dict[str, Number] = {
        "sft": {
            "held-out loss, true contexts": at_look("nll_true", step),
            "drift": at_look("drift", step),
            "drift, diverging": at_look("drift_diverging", step),
            "KL, diverging": at_look("kl_diverging", step),
            "TV / bound": tv_share,
            "coverage": at_look("coverage", step),
            "reward": reward_of,
        }
    }.get(
        part,
        {
            "gap, first batch": first_gap,
            "gap": lambda run: mean_of(run, "step", "gap"),
            "gap, diverging": lambda run: mean_of(run, "step", "gap_diverging"),
            "clipped": lambda run: mean_of(run, "step", "clipped"),
            "KL, diverging": at_look("kl_diverging", step),
            "TV / bound": tv_share,
            "coverage": at_look("coverage", step),
            "reward, first 3 steps": lambda run: mean_of(run, "step", "reward", range(3)),
            "reward, held out": reward_of,
        },
    )
    yield ""
    yield f"## {part}"
    yield ""
    yield _setting(here)
    if step is not None:
        yield f"Loss, drift, KL and coverage are those of step {step}, the last that all looked at."
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
    asked = max(map(asked_of, runs))
    held = f"{asked} fixed held-out questions" if asked else "no held-out questions (cut off)"
    warm = ", from the demos' agent early in its training" if start.get("warm") else ""
    ended = sum(run.ended for run in runs)
    return (
        f"On {start['machine']}, at most {start['steps']} steps at a learning rate of "
        f"{start['rate']:g}{warm}; {held}; {ended} of {len(runs)} arms ran to their end."
    )


def _short(runs: Sequence[Run]) -> Iterator[str]:
    """Where less was run than the script would run by itself."""
    for part, scale in SCALES.items():
        here = [run for run in runs if run.part == part]
        if not here:
            continue
        steps = max(run.steps for run in here)
        asked = max(map(asked_of, here))
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
        yield (
            f"- {len(cut)} of {len(runs)} arms did not run to their end; what they had measured by "
            f"then is used: {', '.join(map(_broken_off, cut))}."
        )


def _broken_off(run: Run) -> str:
    """Which arm, how far it came, and why if it could still say so."""
    reasons = [line["why"] for line in run.of("failed")]
    why = f", {reasons[-1]}" if reasons else ""
    return f"{run.part} `{run.arm}` seed {run.seed} ({run.steps} steps{why})"
