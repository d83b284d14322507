"""The part of docs/performance.md on what `exact` reaches, and where time goes if it misses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.goals import (
    AREAL,
    AREAL_STRETCH,
    BARS,
    FIRST,
    LOGIT_TREE,
    MEMORY,
    SETUP,
    STRETCH,
    against,
    reached,
)
from bench.performance_profiles import spent
from mwviz.engine.timing import first_row

PREFERRED = "packed_mask split"
BESIDE = ("logit_tree", "plain")
"""Methods that what `exact` takes is compared with."""


class Taken(NamedTuple):
    """What `exact` takes for a tree, beside LogitTree and a plain causal pass."""

    shape: str
    tree: str
    row: dict[str, Any]
    base: dict[str, Any] | None
    plain: dict[str, Any] | None


def taken(results: dict[str, Any]) -> Iterator[Taken]:
    """What `exact` takes, of each model and tree that was measured."""
    for choice in results["exact"]:
        shape, tree = choice["model"], choice["workload"]
        rows = [row for row in results["timings"] if row["model"] == shape]
        row, *beside = (first_row(rows, tree, name) for name in (choice["method"], *BESIDE))
        if row is not None and shape in BARS:
            yield Taken(shape, tree, row, *beside)


def packed(results: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Seconds of a training step with one packed row, by model and tree."""
    return {
        (row["model"], row["workload"]): row["train"]
        for row in results["timings"]
        if row["method"] == PREFERRED and not row["refused"]
    }


def table(results: dict[str, Any]) -> str:
    """What `exact` reaches against what the project aims for."""
    lines = [
        "\n### Goals and what `exact` reaches\n",
        "| model, tree | `exact` takes | train x floor (bar) | score x floor (bar) "
        "| against compiled LogitTree (bar) | peak / plain causal pass (bar) | set-up s (bar) "
        "| first call s (bar) |",
        "|" + "---|" * 8,
    ]
    for one in taken(results):
        train, score = BARS[one.shape][one.tree]
        row, base, plain = one.row, one.base, one.plain
        faster = "-" if base is None else base["train"] / row["train"]
        cells = (
            f"{one.shape} {one.tree}",
            row["method"],
            against(row["train_floors"], train),
            against(row["forward_floors"], score),
            faster if isinstance(faster, str) else reached(faster, LOGIT_TREE[one.tree]),
            "-" if plain is None else against(row["peak"] / plain["peak"], MEMORY),
            against(row["setup"], SETUP, ".4f"),
            against(row["first"], FIRST, ".1f"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def missed(results: dict[str, Any]) -> str:
    """Where the time goes of each pass that takes longer than its bar."""
    head = [
        "\nWhere a pass takes longer than its bar, or a training step than the stretch goal behind "
        "it, in floors: what kernels take on the device, and how long it waits.\n",
        "| model, tree | reached (goal) | attention | products | the rest | waits |",
        "|" + "---|" * 6,
    ]
    lines = []
    for one in taken(results):
        for kind, bar, time, floors in (
            ("", STRETCH[one.shape][one.tree], "train", "train_floors"),
            (" score", BARS[one.shape][one.tree][1], "forward", "forward_floors"),
        ):
            name = f"qwen3-{one.shape} {one.tree}{kind}"
            if one.row[floors] <= bar or name not in results["profiles"]:
                continue
            took, floor = spent(results, name), one.row[time] * 1e3 / one.row[floors]
            attention = took["plain attention"] + took["FlexAttention"]
            rest = took["all"] - attention - took["products"]
            waits = one.row[time] * 1e3 - took["all"]
            parts = (attention, took["products"], rest, waits)
            numbers = " | ".join(f"{part / floor:.2f}" for part in parts)
            said = against(one.row[floors], bar).partition(",")[0].rstrip(")")
            lines.append(f"| {name.removeprefix('qwen3-')} | {said}) | {numbers} |")
    return "\n".join([*head, *lines]) if lines else ""


class Peer(NamedTuple):
    """Our training time beside AReaL's on one tree, ms, and shares of it."""

    tree: str
    own: float
    peer: float
    rescaled: float
    """Of AReaL's time as this run's uncompiled layers would have it."""
    bar: float
    stretch: float

    @property
    def ratio(self) -> float:
        """Of AReaL's time as it was measured."""
        return self.own / self.peer


def peers_of(results: dict[str, Any]) -> list[Peer]:
    """Trees of the 0.6B shape on which both are known."""
    found = []
    for tree, (peer, beside, bar) in AREAL.items():
        rows = {
            row["method"]: row["train"] * 1e3
            for row in results["timings"]
            if (row["model"], row["workload"]) == ("0.6B", tree) and not row["refused"]
        }
        names = (PREFERRED, "packed_mask flex, layers not compiled")
        if rows.keys() >= set(names):
            own, eager = (rows[name] for name in names)
            share = own / (peer * eager / beside)
            found.append(Peer(tree, own, peer, share, bar, AREAL_STRETCH[tree]))
    return found


def peers(results: dict[str, Any]) -> str:
    """Training time over AReaL's, plainly and rescaled by this run's own uncompiled layers."""
    lines = [
        "\n### Against AReaL's tree training, 0.6B\n",
        "| tree | train ms | AReaL ms | ratio | rescaled by own packed FlexAttention, layers not "
        "compiled (bar) |",
        "|---|---|---|---|---|",
    ]
    for one in peers_of(results):
        rescaled = against(one.rescaled, one.bar)
        lines.append(f"| {one.tree} | {one.own:.0f} | {one.peer} | {one.ratio:.2f} | {rescaled} |")
    return "\n".join(
        [
            *lines,
            "\nThe rescaling takes our own uncompiled layers for a measure of the machine; their "
            "FlexAttention has been tuned since, so that it makes the peer faster than it ran.",
        ]
    )
