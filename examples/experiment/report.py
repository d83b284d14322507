"""`docs/experiment.md` from the results alone: a verdict a claim, with numbers and limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from examples.experiment.charts import draw
from examples.experiment.findings import findings_of
from examples.experiment.gallery import HELD_OUT, Drawing, gallery
from examples.experiment.job import PARTS
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
from examples.experiment.verdicts import CLEAR, ONCE
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
        "tried at a small scale: SmolLM2-135M-Instruct with an adapter of rank 8 in float32, an "
        "agent that answers questions of three hops in an invented world (`examples/search_world`)."
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
        "t on logarithms), before `more` the difference of two rewards with its own. A claim is "
        "*reproduced* or *not reproduced* where that interval leaves no doubt, *undecided* where "
        "it does. Where an arm has a single seed there is no interval: "
        f"*{ONCE}* says that it shows by a factor of more than {CLEAR:.0f}, and no more than that. "
        f"{seeds_told(runs).capitalize()} make wide intervals; many claims are looked at, so one "
        "in twenty of those without any effect would pass."
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
            "TV / bound": tv_share,
            "coverage": at_look("coverage", step),
            "reward": reward_of,
        }
    }.get(
        part,
        {
            "gap, first batch": first_gap,
            "gap": mean_gap,
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


def _reach(numbers: Sequence[int]) -> str:
    """From the smallest to the largest; one if they are the same."""
    return " to ".join(map(str, dict.fromkeys((min(numbers), max(numbers)))))
