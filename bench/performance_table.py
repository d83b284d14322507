"""Makes `docs/performance.md` from the newest results under `bench/results`.

python -m bench.performance_table > docs/performance.md
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
GIB = 2**30
BARS = {
    "0.6B": {"A": (1.5, 1.5), "B": (2.1, 2.0), "C": (2.2, 2.2), "D": (1.95, 1.9)},
    "1.7B": {"A": (1.5, 1.4), "B": (1.65, 1.6), "C": (1.8, 1.7), "D": (1.6, 1.5)},
}
"""Train and score times over the floor that the project aims for."""
HEAD = """\
# Performance

Made by `python -m bench.performance_table` from `bench/results`; measured by `mwviz bench --shape
0.6B` (times, memory, distances) and `python -m bench.structure FILE` (structure).

**The exact engine.** One packed row holds every token of the tree once, in heavy-path order: each
node is followed by its heaviest child, so that a branch sees whole blocks of a shared path. On CUDA
the row runs through compiled decoder layers, one graph for all layers and lengths. Its attention is
one of

| kernel | what it does |
|---|---|
| `split` | cuDNN for the largest rectangles and causal triangles, FlexAttention for the rest |
| `flex` | FlexAttention under a block mask made from the ends of the keys' intervals |
| `sdpa`, `eager` | a dense additive mask, up to 8,192 tokens |

`split` merges its parts by log-sum-exp, and each piece's backward pass runs with the output and
log-sum-exp of the whole; it needs 16 bits and compute capability 9.0. No T x T array is made by
either. `logit_tree` runs one causal row a branch through the same layers. `exact` predicts both
from the cost model below and takes the faster one.

**Cost model.** U tree tokens, P visible pairs, M targets; widths h, q (all query heads), kv, i; L
layers, V vocabulary.

    N = L (2 h q + 2 h kv + 3 h i)     linear 2 N U (x3 with backward)
    attention 4 q L P (x3.5)           vocabulary 2 h V M (x3)
    floor seconds = the sum over the rate of a large 16-bit product, measured in the same run

The prediction adds what a kernel reaches of that rate, the traffic between products, and launches.
Layers run twice where memory would not do (predicted before, or after a shortage).
"""


def main() -> None:
    results = json.loads(max(RESULTS.glob("h200-*.json")).read_text())
    print(HEAD)
    print(_where(results))
    for shape in BARS:
        rows = [row for row in results["timings"] if row["model"] == shape]
        if rows:
            print(_speed(shape, rows))
    print(_goals(results))
    print(_exactness(results))
    print(_profiles(results))
    print(_structure(json.loads((RESULTS / "structure.json").read_text())), end="")


def _where(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    rate = results["rate"] / 1e12
    return (
        f"## One {results['device']}, {results['date']}\n\n{versions}; bf16, random weights, Qwen3 "
        f"shapes; a large product reaches {rate:.0f} TFLOP/s. Score: every log-probability with "
        "entropy, rank and hidden state, table included. Train: loss and gradient, masks included. "
        "First: the first of both, with compilation and self-check."
    )


def _speed(shape: str, rows: list[dict[str, Any]]) -> str:
    lines = [
        f"\n### {shape}\n",
        "| tree | method and kernel | score ms (x floor) | train ms (x floor) | x LogitTree "
        "| tokens/s | peak GiB | set-up ms | first s | max d nats | gradient error "
        "| predicted ms |",
        "|" + "---|" * 12,
    ]
    for row in rows:
        base = next(
            (o for o in rows if o["workload"] == row["workload"] and "logit_tree" in o["method"]),
            None,
        )
        faster = "-" if base is None else f"{base['train'] / row['train']:.2f}"
        cells = (
            row["workload"],
            row["method"],
            f"{row['forward'] * 1e3:.0f} ({row['forward_floors']:.2f})" if row["forward"] else "-",
            f"{row['train'] * 1e3:.0f} ({row['train_floors']:.2f})",
            faster,
            f"{row['tokens_per_second']:,.0f}",
            f"{row['peak'] / GIB:.1f}",
            f"{row['setup'] * 1e3:.1f}",
            f"{row['first']:.1f}",
            _small(row["max_drift"]),
            _small(row["gradient_error"]),
            f"{row['predicted'] * 1e3:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _small(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def _goals(results: dict[str, Any]) -> str:
    """What `exact` reaches against what the project aims for."""
    lines = [
        "\n### Goals and what `exact` reaches\n",
        "| model, tree | `exact` takes | train x floor (bar) | score x floor (bar) "
        "| against compiled LogitTree | peak / plain causal pass |",
        "|---|---|---|---|---|---|",
    ]
    for choice in results["exact"]:
        shape, tree = choice["model"], choice["workload"]
        rows = [r for r in results["timings"] if (r["model"], r["workload"]) == (shape, tree)]
        # The preferred kernel is measured first.
        taken = next((r for r in rows if r["method"].startswith(choice["method"])), None)
        plain = next((r for r in rows if r["method"].startswith("plain")), None)
        base = next((r for r in rows if r["method"].startswith("logit_tree")), None)
        if taken is None or base is None or shape not in BARS:
            continue
        train, score = BARS[shape][tree]
        lines.append(
            f"| {shape} {tree} | {taken['method']} | {_against(taken['train_floors'], train)} | "
            f"{_against(taken['forward_floors'], score)} | {base['train'] / taken['train']:.2f} | "
            f"{'-' if plain is None else format(taken['peak'] / plain['peak'], '.2f')} |"
        )
    return "\n".join(lines)


def _against(value: float, bar: float) -> str:
    return f"{value:.2f} ({bar}{'' if value <= bar else ', missed'})"


def _exactness(results: dict[str, Any]) -> str:
    small = [row for row in results["timings"] if row["model"] == "tiny float32"]
    worst = {}
    for row in small:
        if row["max_drift"] is not None:
            drift, error = worst.get(row["method"], (0.0, 0.0))
            worst[row["method"]] = (
                max(drift, row["max_drift"]),
                max(error, row["gradient_error"]),
            )
    lines = [
        "\n### Exactness\n",
        "float32, the four trees at 3 % of their tokens, against LogitTree:\n",
        "| method and kernel | max d nats | gradient error |",
        "|---|---|---|",
        *(f"| {name} | {drift:.1e} | {error:.1e} |" for name, (drift, error) in worst.items()),
    ]
    if "rounding" in results:
        lines += [
            "\nbf16 against float32 LogitTree, 0.6B, tree D, nats:\n",
            "| | |\n|---|---|",
            *(f"| {name} | {value:.4f} |" for name, value in results["rounding"].items()),
        ]
    return "\n".join(lines)


def _profiles(results: dict[str, Any]) -> str:
    """Device time of one training step by kind of kernel."""
    lines = [
        "\n### Where a training step's device time goes, ms\n",
        "| model, tree | plain attention | FlexAttention | products | the rest | all |",
        "|---|---|---|---|---|---|",
    ]
    for name, kernels in results.get("profiles", {}).items():
        if not any(row["model"] in name for row in results["timings"]):
            continue
        total = kernels[-1][2]
        kinds = {"cudnn": 0.0, "flex_attention": 0.0, "nvjet": 0.0}
        for kernel, _count, ms in kernels[:-1]:
            for kind in kinds:
                if kind in kernel:
                    kinds[kind] += ms
        rest = total - sum(kinds.values())
        cells = " | ".join(f"{ms:.0f}" for ms in (*kinds.values(), rest, total))
        lines.append(f"| {name.removeprefix('qwen3-')} | {cells} |")
    return "\n".join(lines)


def _structure(found: dict[str, Any]) -> str:
    lines = [
        f"\n## Structure, {found['date']}\n",
        "Two CPU cores, no model: tree, every view the rollout can be laid out in, pair counts of "
        "all of them.\n",
        "| log | file MiB | tree tokens | segments | read s | tree s | views s | pairs s | all s "
        "| MiB above start |",
        "|" + "---|" * 10,
    ]
    for name, row in found["rows"].items():
        steps = [row[key] for key in ("read_s", "tree_s", "views_s", "pairs_s")]
        cells = (
            name,
            f"{row['file_mib']:.1f}",
            f"{row['tree_tokens']:,}",
            str(row["segments"]),
            *(f"{seconds:.2f}" for seconds in (*steps, sum(steps))),
            f"{row['above_start_mib']:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
