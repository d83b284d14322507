"""The parts of docs/performance.md on batches of rows, on two cards, and on the tests of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.performance_goals import packed
from mwviz.engine.batches import MOST
from mwviz.engine.timing import first_row

MOVED = ("batches", "sharded", "tests", "pair")
"""What a document of `bench.card_report` holds for these parts."""
FORMS = ("one by one", "batched")
DISTANCES = (
    *("packed against one device, max", "logit_tree against one device, max"),
    *("packed against logit_tree, max", "gradient, worst"),
)
TIMES = ("packed_mask score", "logit_tree score", "packed_mask train")


def without(results: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """A run without these parts, and without what failed in it and was measured later."""
    failed = [
        one for one in results["failed"] if one["step"].rpartition(" ")[2] not in later["sharded"]
    ]
    return results | {part: {} for part in MOVED} | {"failed": failed}


def section(later: dict[str, Any], first: dict[str, Any]) -> str:
    """A run of these parts alone, another than the first; both as `bench.card_report` has them."""
    shares = [*apart(later, first)]
    far = f" (rows one by one lie up to {max(shares) * 100:.0f} % apart)" if shares else ""
    versions = ", ".join(f"{name} {number}" for name, number in later["versions"].items())
    head = (
        f"\n## Two {later['device']}, {later['date']}, another run\n\n{versions}; bf16 where "
        f"nothing else is said. Not the machine of the tables above{far}: what divides one run by "
        "the other is marked."
    )
    return "\n".join([head, *batches(later, first), *sharded(later), *tests(later)]) + "\n"


def apart(later: dict[str, Any], first: dict[str, Any]) -> Iterator[float]:
    """Shares by which rows one by one took longer in one of the runs than in the other."""
    for name, found in later["batches"].items():
        model, tree = name.split()
        row = first_row(
            [one for one in first["timings"] if one["model"] == model], tree, "logit_tree"
        )
        if row is None:
            continue
        for kind in ("forward", "train"):
            ratio = row[kind] / found[f"one by one {kind}"]
            yield max(ratio, 1 / ratio) - 1


def batches(results: dict[str, Any], first: dict[str, Any]) -> Iterator[str]:
    """LogitTree's rows one by one against batches of them; nothing where that was not tried.

    Args:
        results: The run that has them.
        first: The one that has packed rows, the same or another.
    """
    if not results["batches"]:
        return
    rows, across = packed(first), "" if first is results else ", across the runs"
    yield "\n### LogitTree's rows one by one and in batches\n"
    yield (
        "Both through the engine, one after the other on one card; distances from row by row. "
        f"Packed{across}: what one packed row takes, in the tables above, of a batched step here."
        f"{_within(results, first) if across else ''}\n"
    )
    yield (
        "| model, tree | rows, batches | score ms | batched | faster | train ms | batched | faster "
        f"| peak GiB | batched | max d nats | gradient error | packed{across} |"
    )
    yield "|" + "---|" * 13
    for name, found in results["batches"].items():
        cells = [f"{found['rows']}, {found['batches']}"]
        for kind in ("forward", "train"):
            cells += [f"{found[f'{form} {kind}'] * 1e3:.0f}" for form in FORMS]
            cells.append(f"{found[f'{kind} faster']:.2f}")
        cells += [f"{found[f'{form} peak'] / 2**30:.1f}" for form in FORMS]
        cells += [f"{found['max |d logprob|']:.2g}", f"{found['gradient error']:.2g}"]
        model, tree = name.split()
        taken = rows.get((model, tree))
        cells.append("-" if taken is None else f"{taken / found['batched train']:.2f}")
        yield f"| {name} | {' | '.join(cells)} |"


def _within(later: dict[str, Any], first: dict[str, Any]) -> str:
    """What the first run's packed rows take of its own batches, as far as it has some."""
    rows, said = packed(first), []
    for name in later["batches"]:
        model, tree = name.split()
        batched = first["sweep"].get(f"{name} batched", {}).get(f"{MOST} tokens")
        if batched and (model, tree) in rows:
            said.append(f"{name} {rows[model, tree] / batched:.2f}")
    return f" Within the run of those tables: {', '.join(said)}." if said else ""


def sharded(results: dict[str, Any]) -> Iterator[str]:
    """A model over two cards against one; nothing where that was not tried."""
    if not results["sharded"]:
        return
    yield "\n### One model over two cards\n"
    yield (
        "Tree D: `spread` has layers on each (`device_map`), `tensor` each layer cut in two "
        "(`tp_plan`); distances in nats from one card, of gradients relative, the worst of the "
        "embedding, the first layer and every norm:\n"
    )
    yield (
        "| how, dtype, tokens | packed | separate | packed against separate | worst gradient "
        "| packed: score ms | separate: score ms | packed: train ms |"
    )
    yield "|" + "---|" * 8
    for how, runs in results["sharded"].items():
        for name, off in runs.items():
            if not isinstance(off, dict):
                continue
            cells = [f"{off[one]:.2g}" if one in off else "-" for one in DISTANCES]
            cells += [f"{off['ms'][one]:.0f}" if one in off["ms"] else "-" for one in TIMES]
            if set(cells) != {"-"}:
                yield f"| {how}, {name} | {' | '.join(cells)} |"


def tests(results: dict[str, Any]) -> Iterator[str]:
    """What the tests on one card, and the one on two, came to."""
    if results["tests"]:
        last = results["tests"]["last"].partition(" in ")[0]
        yield f"\nThe tests that need a card (`tests/engine/test_gpu.py`): {last}."
    for name, came_to in dict(results["pair"].get("results", {})).items():
        yield f"\nThe one that needs two, `{name.rpartition('::')[2]}`: {came_to}."
