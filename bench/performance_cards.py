"""The parts of docs/performance.md on batches of rows, on two cards, and on the tests of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


def section(later: dict[str, Any], packed: dict[tuple[str, str], float]) -> str:
    """A run of these parts alone.

    Args:
        later: A document of `bench.card_report`.
        packed: Seconds of a training step with one packed row, by model and tree, of another run.
    """
    versions = ", ".join(f"{name} {number}" for name, number in later["versions"].items())
    head = (
        f"\n## Two {later['device']}, {later['date']}, another run\n\n{versions}; bf16 where "
        "nothing else is said. Not the machine of the tables above: milliseconds differ by up to "
        "a quarter where rows wait for launches, so that only ratios within a table count."
    )
    return "\n".join([head, *batches(later, packed), *sharded(later), *tests(later)]) + "\n"


def batches(results: dict[str, Any], packed: dict[tuple[str, str], float]) -> Iterator[str]:
    """LogitTree's rows one by one against batches of them; nothing where that was not tried."""
    if not results["batches"]:
        return
    yield "\n### LogitTree's rows one by one and in batches\n"
    yield (
        "Both through the engine, one after the other on one card; distances from row by row. "
        "Packed: what one packed row takes of a batched step in the tables above.\n"
    )
    yield (
        "| model, tree | rows, batches | score ms | batched | faster | train ms | batched | faster "
        "| peak GiB | batched | max d nats | gradient error | packed |"
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
        taken = packed.get((model, tree))
        cells.append("-" if taken is None else f"{taken / found['batched train']:.2f}")
        yield f"| {name} | {' | '.join(cells)} |"


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
