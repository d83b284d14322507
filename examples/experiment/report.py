"""`docs/experiment.md` from the results alone: a verdict a claim, with numbers and limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from examples.experiment.arms import QUESTIONS, SAMPLES, TAUGHT
from examples.experiment.charts import draw
from examples.experiment.findings import findings_of
from examples.experiment.gallery import HELD_OUT, Drawing, gallery
from examples.experiment.job import CONTROL, PARTS, Job
from examples.experiment.limits import limits, seeds_told
from examples.experiment.readings import (
    Number,
    asked_of,
    at_look,
    first_gap,
    mean_gap,
    reward_of,
    shared_look,
    tv_share,
)
from examples.experiment.results import Run, mean_of, over_seeds, read_best
from examples.experiment.short import in_short
from examples.experiment.teach import TRIED
from examples.experiment.verdicts import CLEAR, ONCE
from examples.experiment.why import explained
from mwviz.engine.embedded import EMBEDDED
from mwviz.wording import listed


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
    drawings = gallery(runs)
    draw({one.name: one.figure for one in drawings}, charts)
    out.write_text("\n".join(page_of(runs, drawings, charts.name)) + "\n")


def page_of(runs: Sequence[Run], drawings: Sequence[Drawing], folder: str) -> Iterator[str]:
    """Its lines.

    Args:
        runs: of all arms.
        drawings: its charts.
        folder: where they lie, from the page.
    """
    yield "# Experiment"
    yield ""
    yield (
        "The claims of *MemoryWalker* (arXiv 2609.00865) about training under context compression, "
        f"tried at a small scale: {_models(runs)} with an adapter of rank 8 in float32, an agent "
        "that answers questions of three hops in an invented world (`examples/search_world`)."
        " The paper trains models of 4B and more for far longer: what does not show here may show "
        "there, and the other way round."
    )
    yield ""
    findings = list(findings_of(runs))
    yield from in_short(runs, findings)
    for one in drawings:
        if one.name == HELD_OUT:
            yield from _shown(one, folder)
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
        "t on logarithms, degrees of freedom rounded down), before `more` the difference of two "
        "rewards with its own, widened by the chance that lies in the questions asked. A claim is "
        "*reproduced* or *not reproduced* where that interval leaves no doubt, *undecided* where "
        "it does. Where an arm has a single seed there is no interval: "
        f"*{ONCE}* says that it shows by a factor of more than {CLEAR:.0f}, and no more than that. "
        f"Intervals over {seeds_told(runs)} are wide; many claims are looked at, so one "
        "in twenty of those without any effect would pass."
    )
    yield ""
    yield (
        "In the tables below *gap* is the mean |log p as trained - log p as sampled| over a step's "
        "tokens, mean of the steps; *drift* the same between a layout and the true contexts; "
        "*diverging* keeps the tokens whose context the layout changes; *TV / bound* is the mean "
        "total variation over the most that its KL allows, *clipped* the share of tokens whose "
        "importance ratio was clipped, *coverage* the share of sampled tokens that a layout "
        "trains ([Metrics](metrics.md))."
    )
    for part in PARTS:
        yield from _part(runs, part)
    yield from explained(runs)
    yield ""
    yield "## Charts"
    yield ""
    for one in drawings:
        if one.name != HELD_OUT:
            yield from _shown(one, folder)
    yield from limits(runs)


def _shown(one: Drawing, folder: str) -> Iterator[str]:
    """A chart above its caption, and an empty line."""
    yield f"![{one.name}]({folder}/{one.name}.png)"
    yield ""
    yield one.caption
    yield ""


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
            "TV / bound": tv_share(step),
            "coverage": at_look("coverage", step),
            "reward": reward_of,
            **{f"reward, {one}": partial(reward_of, harness=one) for one in _harnesses(here)},
        }
    }.get(
        part,
        {
            "gap, first batch": first_gap,
            "gap": mean_gap,
            "gap, diverging": lambda run: mean_of(run, "step", "gap_diverging"),
            "clipped": lambda run: mean_of(run, "step", "clipped"),
            "KL, diverging": at_look("kl_diverging", step),
            "TV / bound": tv_share(step),
            "coverage": at_look("coverage", step),
            "reward, first 3 steps": lambda run: mean_of(run, "step", "reward", range(3)),
            "reward, held out": reward_of,
        },
    )
    yield ""
    yield f"## {part}"
    yield ""
    yield _setting(here)
    yield _taught(part)
    if step is not None:
        yield (
            f"Loss, drift, KL, TV and coverage are those of step {step}, the last that all looked "
            "at."
        )
    if part == "sft" and any(run.arm == CONTROL for run in here):
        yield (
            f"`{CONTROL}` is looked at as `rightmost` is, on the same rollouts with evictions; its "
            "training and its questions alone are without."
        )
    yield ""
    yield f"| arm | seeds | steps | {' | '.join(columns)} |"
    yield "|---|---|---|" + "---|" * len(columns)
    for arm in PARTS[part]:
        mine = [run for run in here if run.arm == arm]
        if mine:
            steps = _reach([run.steps for run in mine])
            cells = [over_seeds(here, part, arm, number) or "-" for number in columns.values()]
            told = " | ".join(map(str, cells))
            yield f"| `{arm}` | {len(mine)} | {steps} | {told} |"


def _setting(runs: Sequence[Run]) -> str:
    start = runs[0].start
    counts = [asked for run in runs if (asked := asked_of(run))]
    held = "no held-out questions (cut off)"
    if counts:
        held = f"{_reach(counts)} fixed held-out questions"
    warm = ", from the demos' agent early in its training" if start.get("warm") else ""
    ended = sum(run.ended for run in runs)
    return (
        f"On {start['machine']}, at most {start['steps']} steps at a learning rate of "
        f"{start['rate']:g}{warm}; {held}; {ended} of {len(runs)} arms ran to their end."
    )


def _taught(part: str) -> str:
    """What a step trains on."""
    if part == "sft":
        tokens = Job(part, CONTROL, 0).batch_tokens
        return (
            f"A step trains on about {tokens:,} tokens of {TAUGHT} rollouts of the scripted "
            f"expert, in turns under `prune` and `summary` (`{CONTROL}`: without evictions); "
            "*reward* is the mean of both."
        )
    return (
        f"A step samples {SAMPLES} rollouts of each of {QUESTIONS} questions and trains them once, "
        "each by its reward less the mean of its question, over the spread there."
    )


def _models(runs: Sequence[Run]) -> str:
    """What was trained."""
    names = {Path(str(run.start.get("model", EMBEDDED))).name for run in runs}
    return listed(sorted(names))


def _harnesses(runs: Sequence[Run]) -> list[str]:
    """Those with evictions in which the agents answered, where these are several."""
    asked = {line["harness"] for run in runs for line in run.of("reward")}
    found = [one.name for one in TRIED if one.name in asked]
    return found if len(found) > 1 else []


def _reach(numbers: Sequence[int]) -> str:
    """From the smallest to the largest; one if they are the same."""
    return " to ".join(map(str, dict.fromkeys((min(numbers), max(numbers)))))
