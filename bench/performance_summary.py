"""The head of docs/performance.md: of every goal how many cases meet it, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bench import goals
from bench.exact_cpu import MOST
from bench.performance_cpu import STEPS, waited
from bench.performance_exact import float32_worst
from bench.performance_goals import Taken, peers_of, taken

STRUCTURE = (1.0, 300.0)
"""Seconds and MiB of a rollout of 200 calls and 150k tokens."""
EXACT = ("packed_mask split", "packed_mask varlen", "packed_mask flex", "logit_tree sdpa")
FASTER = 1.05
"""Of the fastest exact layout's time on a card."""
WHY = {
    "train": "attention on A takes 1.10 floors: cuDNN reaches 490 of 781 TFLOP/s going back",
    "stretch": "attention and products alone take 1.22 to 1.62 floors, what runs between them and "
    "waits 0.14 to 0.39 (table of such passes below)",
    "logit_tree": "A: operations allow 1.12 and 1.18; 1.7B D is past what they allow (2.9)",
    "peer": "as for the stretch goals of training",
    "rescaled": "the measure, our own layers not compiled, has become faster itself",
    "float32": "last digits, of the sums inside the card's kernels; the CPU's are within",
}
"""Reasons in short; the page says more of each behind its tables."""


class Case(NamedTuple):
    """What one model and tree, or one kernel, reaches of a goal."""

    name: str
    value: float
    bar: float
    least: bool = False
    """Whether the bar is to be reached; else it is not to be exceeded."""

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.value >= self.bar if self.least else self.value <= self.bar


def summary(results: dict[str, Any], cpu: dict[str, dict[str, Any]]) -> str:
    """One line a goal.

    Args:
        results: The newest run of all kernels, a document of `bench.card_report`.
        cpu: Documents of `tidy`, `exact_cpu` and `structure`.
    """
    lines = [
        "## Every goal in short\n",
        "| goal | met | missed: reached (bar) | why |",
        "|---|---|---|---|",
    ]
    for goal, cases, why in (*_card(results), *_exactness(results), *_cpu(cpu)):
        missed = [
            f"{one.name} {one.value:.3g} ({one.bar:.3g})".strip() for one in cases if not one.met
        ]
        met = f"{len(cases) - len(missed)} of {len(cases)}"
        reason = WHY.get(why, "not looked into") if missed else ""
        lines.append(f"| {goal} | {met} | {', '.join(missed)} | {reason} |")
    return "\n".join(
        [
            *lines,
            "\nBars of time are over the floor (below) on one H200 in 16 bits, of what `exact` "
            "takes for trees A to D; a stretch goal is the next thing to reach behind a bar.\n",
        ]
    )


Goals = Iterator[tuple[str, Sequence[Case], str]]


def _card(results: dict[str, Any]) -> Goals:
    took = [*taken(results)]
    for number, kind in enumerate(("train", "forward")):
        word = "train" if kind == "train" else "score"
        yield f"{word}, bar", [_floors(one, kind, number) for one in took], "train"
    stretch = [
        Case(_name(one), one.row["train_floors"], goals.STRETCH[one.shape][one.tree])
        for one in took
    ]
    yield "train, stretch", stretch, "stretch"
    rows = [(_name(one), _ratio(one)) for one in took]
    bars = [goals.LOGIT_TREE[one.tree] for one in took]
    yield (
        "times as fast as LogitTree row by row, layers compiled",
        [Case(name, ratio, bar, least=True) for (name, ratio), bar in zip(rows, bars, strict=True)],
        "logit_tree",
    )
    peers = peers_of(results)
    names = [f"0.6B {one.tree}" for one in peers]
    for goal, why, cases in (
        ("share of AReaL's time, bar", "peer", [(one.ratio, one.bar) for one in peers]),
        ("share of AReaL's time, stretch", "peer", [(one.ratio, one.stretch) for one in peers]),
        ("the same, rescaled, bar", "rescaled", [(one.rescaled, one.bar) for one in peers]),
    ):
        yield goal, [Case(name, *case) for name, case in zip(names, cases, strict=True)], why
    yield "peak memory of a plain causal pass over the tree's tokens", _peaks(took), ""
    yield (
        "set-up and mask, s",
        [Case(_name(one), one.row["setup"], goals.SETUP) for one in took],
        "",
    )
    yield "first call, s", [Case(_name(one), one.row["first"], goals.FIRST) for one in took], ""
    yield "`exact` of the fastest exact layout's time", [*_fastest(results, took)], ""


def _exactness(results: dict[str, Any]) -> Goals:
    worst = float32_worst(results)
    for place, what in enumerate(("log-probability, nats", "gradient")):
        cases = [
            Case(name.removeprefix("packed_mask "), found[place], goals.FLOAT32[place])
            for name, found in worst.items()
        ]
        yield f"float32 against LogitTree: {what}", cases, "float32"
    for off in results["rounding"].values():
        cases = [
            Case(name, value, 2 * off["logit_tree sdpa max"])
            for name, value in off.items()
            if name.startswith("packed_mask") and name.endswith(" max")
        ]
        yield "16 bits against float32, nats: twice LogitTree's", cases, ""
    wide, narrow = (
        {name: off for name, off in results["recorded"].items() if name.endswith(kind)}
        for kind in ("float32", "bfloat16")
    )
    yield (
        "recorded rollouts, float32, nats",
        [Case(name, off["packed_mask max"], goals.RECORDED) for name, off in wide.items()],
        "",
    )
    yield (
        "recorded rollouts, 16 bits, mean nats: twice that of separate branches",
        [
            Case(name, off["packed_mask mean"], 2 * off["logit_tree mean"])
            for name, off in narrow.items()
        ],
        "",
    )


def _cpu(cpu: dict[str, dict[str, Any]]) -> Goals:
    yield (
        "`exact` of the faster exact layout's time, CPU",
        [
            Case(
                f"{row['tree']} {'train' if row['train'] else 'score'}", row["of the faster"], MOST
            )
            for row in cpu["exact_cpu"]["rows"]
        ],
        "",
    )
    yield (
        "the tidy demo's four views on free cores, s",
        [Case("", waited(cpu["tidy"]), goals.TIDY)],
        "",
    )
    row = cpu["structure"]["rows"]["150k"]
    spent = sum(row[name] for name in STEPS)
    cases = [Case("s", spent, STRUCTURE[0]), Case("MiB", row["above_start_mib"], STRUCTURE[1])]
    yield "tree, views and pair counts of 200 calls, 150k tokens", cases, ""


def _name(one: Taken) -> str:
    return f"{one.shape} {one.tree}"


def _floors(one: Taken, kind: str, number: int) -> Case:
    return Case(_name(one), one.row[f"{kind}_floors"], goals.BARS[one.shape][one.tree][number])


def _ratio(one: Taken) -> float:
    return 0.0 if one.base is None else float(one.base["train"] / one.row["train"])


def _peaks(took: Sequence[Taken]) -> list[Case]:
    return [
        Case(_name(one), one.row["peak"] / one.plain["peak"], goals.MEMORY)
        for one in took
        if one.plain is not None
    ]


def _fastest(results: dict[str, Any], took: Sequence[Taken]) -> Iterator[Case]:
    for one in took:
        times = [
            row["train"]
            for row in results["timings"]
            if (row["model"], row["workload"]) == (one.shape, one.tree)
            and row["method"] in EXACT
            and not row["refused"]
        ]
        yield Case(_name(one), one.row["train"] / min(times), FASTER)
