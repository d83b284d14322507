"""The exactness part of docs/performance.md: how near packed rows are to what they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.goals import FLOAT32, RECORDED, against


def exactness(results: dict[str, Any]) -> str:
    """Distances in float32 and in 16 bits, and of recorded rollouts."""
    return "\n".join(
        [
            "\n### Exactness\n",
            *_small_trees(results),
            *_rounding(results),
            *_recorded(results),
        ]
    )


def float32_worst(results: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """By method and kernel: largest distance from LogitTree in nats, and of gradients."""
    worst: dict[str, tuple[float, float]] = {}
    for row in results["timings"]:
        if row["model"] == "tiny float32" and row["max_drift"] is not None:
            drift, error = worst.get(row["method"], (0.0, 0.0))
            worst[row["method"]] = max(drift, row["max_drift"]), max(error, row["gradient_error"])
    return worst


def _small_trees(results: dict[str, Any]) -> Iterator[str]:
    worst = float32_worst(results)
    yield (
        "float32, the four trees at 3 % of their tokens, against LogitTree (the last digit of a "
        "log-probability of -9 is 9.5e-7):\n"
    )
    yield "| method and kernel | max d nats (bar) | gradient error (bar) |\n|---|---|---|"
    for name, found in worst.items():
        nats, relative = (
            against(value, bar, ".1e") for value, bar in zip(found, FLOAT32, strict=True)
        )
        yield f"| {name} | {nats} | {relative} |"


def _rounding(results: dict[str, Any]) -> Iterator[str]:
    for title, off in results["rounding"].items():
        shape, tree = title.split()
        most = round(2 * off["logit_tree sdpa max"], 3)
        yield f"\nbf16 against float32 LogitTree, {shape}, tree {tree} (bar: twice LogitTree's):\n"
        yield "| method and kernel | max d nats (bar) | mean |\n|---|---|---|"
        for name in (name.removesuffix(" max") for name in off if name.endswith(" max")):
            value = off[f"{name} max"]
            largest = f"{value:.3f}" if "logit_tree" in name else against(value, most, ".3f")
            yield f"| {name} | {largest} | {off[f'{name} mean']:.4f} |"
    if results["alone"]:
        said = (
            f"{name} largest {off['max']:.2g}, mean {off['mean']:.2g} nats"
            for name, off in results["alone"].items()
        )
        yield "\nbf16, a tree packed against its last branch alone: " + "; ".join(said) + "."


def _recorded(results: dict[str, Any]) -> Iterator[str]:
    if not results["recorded"]:
        return
    yield (
        "\nRollouts of the embedded model, packed and as separate branches, against the "
        f"log-probabilities recorded with them (bars: {RECORDED} in float32; in 16 bits the mean "
        "at most twice that of separate branches):\n"
    )
    yield "| rollout | packed max d nats | mean | separate max | mean | floor p50 | p99.9 |"
    yield "|" + "---|" * 7
    for name, off in results["recorded"].items():
        largest, mean = f"{off['packed_mask max']:.2g}", f"{off['packed_mask mean']:.2g}"
        if name.endswith("float32"):
            largest = against(off["packed_mask max"], RECORDED, ".1e")
        else:
            most = float(f"{2 * off['logit_tree mean']:.3g}")
            mean = against(off["packed_mask mean"], most, ".3g")
        others = ("logit_tree max", "logit_tree mean", "floor p50", "floor p99.9")
        cells = (name.replace(" rollout-", ", "), largest, mean, *(f"{off[o]:.2g}" for o in others))
        yield f"| {' | '.join(cells)} |"
