"""Makes `docs/performance.md` from the newest results under `bench/results`.

python -m bench.performance_table > docs/performance.md
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.goals import AREAL, BARS, LOGIT_TREE, MEMORY, against, reached
from bench.performance_prose import HEAD, MISSES, TAIL

RESULTS = Path(__file__).parent / "results"
STEPS = ("read_s", "tree_s", "views_s", "pairs_s")
"""Columns of a log's structure that add up."""
GIB = 2**30


def main() -> None:
    results = json.loads(max(RESULTS.glob("h200-*.json")).read_text())
    print(HEAD)
    print(_where(results))
    for shape in BARS:
        rows = [row for row in results["timings"] if row["model"] == shape]
        if rows:
            print(_speed(shape, rows))
    print(_goals(results))
    print(_peers(results))
    print(_exactness(results))
    print(_profiles(results))
    print(_tidy(json.loads((RESULTS / "tidy.json").read_text())))
    print(_structure(json.loads((RESULTS / "structure.json").read_text())))
    print(TAIL, end="")


def _where(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    rate = results["rate"] / 1e12
    return (
        f"## One {results['device']}, {results['date']}\n\n{versions}; bf16, random weights, Qwen3 "
        f"shapes; a large product reaches {rate:.0f} TFLOP/s. Score: every log-probability with "
        "entropy, rank and hidden state, table included. Train: loss and gradient, masks included. "
        "First: the first of both, with compilation and self-check. Runs:\n"
        + "".join(f"\n* run {number}: {text}" for number, text in results.get("runs", {}).items())
    )


def _speed(shape: str, rows: list[dict[str, Any]]) -> str:
    lines = [
        f"\n### {shape}\n",
        "| tree | method and kernel | score ms (x floor) | train ms (x floor) | x LogitTree "
        "| tokens/s | peak GiB | set-up ms | first s | max d nats | gradient error "
        "| predicted ms | run |",
        "|" + "---|" * 13,
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
            str(row.get("run", "-")),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _small(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def _goals(results: dict[str, Any]) -> str:
    """What `exact` reaches against what the project aims for."""
    lines = [
        "\n### Goals and what `exact` reaches\n",
        "| model, tree | `exact` takes | train x floor (bar) | of it on the device "
        "| score x floor (bar) | of it on the device | against compiled LogitTree (bar) "
        "| peak / plain causal pass (bar) |",
        "|" + "---|" * 8,
    ]
    for choice in results["exact"]:
        shape, tree = choice["model"], choice["workload"]
        rows = [r for r in results["timings"] if (r["model"], r["workload"]) == (shape, tree)]
        # The preferred kernel is measured first.
        taken = next((r for r in rows if r["method"].startswith(choice["method"])), None)
        plain = next((r for r in rows if r["method"].startswith("plain")), None)
        base = next((r for r in rows if r["method"].startswith("logit_tree")), None)
        if taken is None or shape not in BARS:
            continue
        train, score = BARS[shape][tree]
        device = [
            _device_floors(results, f"qwen3-{shape} {tree}{kind}", taken, time, floors)
            for kind, time, floors in (
                ("", "train", "train_floors"),
                (" score", "forward", "forward_floors"),
            )
        ]
        faster = "-" if base is None else reached(base["train"] / taken["train"], LOGIT_TREE[tree])
        share = "-" if plain is None else against(taken["peak"] / plain["peak"], MEMORY)
        cells = (
            f"{shape} {tree}",
            taken["method"],
            against(taken["train_floors"], train),
            device[0],
            against(taken["forward_floors"], score),
            device[1],
            faster,
            share,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, MISSES])


def _device_floors(
    results: dict[str, Any], name: str, taken: dict[str, Any], time: str, floors: str
) -> str:
    """Kernel time of one profiled step over the floor, where it is of the same run."""
    kernels = results["profiles"].get(name)
    if not kernels or taken["run"] != results["profiled"]:
        return "-"
    return f"{kernels[-1][2] / 1e3 / (taken[time] / taken[floors]):.2f}"


def _peers(results: dict[str, Any]) -> str:
    """Training time over AReaL's, plainly and rescaled by this run's own uncompiled layers."""
    lines = [
        "\n### Against AReaL's tree training, 0.6B\n",
        "| tree | train ms | AReaL ms | ratio | rescaled by own packed FlexAttention, layers not "
        "compiled (bar) |",
        "|---|---|---|---|---|",
    ]
    for tree, (peer, beside, bar) in AREAL.items():
        rows = {
            row["method"]: row["train"] * 1e3
            for row in results["timings"]
            if (row["model"], row["workload"]) == ("0.6B", tree)
        }
        names = ("packed_mask split", "packed_mask flex, layers not compiled")
        if not rows.keys() >= set(names):
            continue
        own, eager = (rows[name] for name in names)
        ratio = own / (peer * eager / beside)
        lines.append(f"| {tree} | {own:.0f} | {peer} | {own / peer:.2f} | {against(ratio, bar)} |")
    return "\n".join(
        [
            *lines,
            "\nThe rescaling takes our own uncompiled layers for a measure of the machine; their "
            "FlexAttention has been tuned since, so that it makes the peer faster than it ran.",
        ]
    )


def _exactness(results: dict[str, Any]) -> str:
    small = [row for row in results["timings"] if row["model"] == "tiny float32"]
    worst: dict[tuple[str, int], tuple[float, float]] = {}
    for row in small:
        if row["max_drift"] is not None:
            key = row["method"], row.get("run", 0)
            drift, error = worst.get(key, (0.0, 0.0))
            worst[key] = (
                max(drift, row["max_drift"]),
                max(error, row["gradient_error"]),
            )
    lines = [
        "\n### Exactness\n",
        "float32, the four trees at 3 % of their tokens, against LogitTree (bars 2e-6 and 1e-6; "
        "the last digit of a log-probability of -9 is 9.5e-7):\n",
        "| method and kernel | run | max d nats | gradient error |",
        "|---|---|---|---|",
        *(
            f"| {name} | {run} | {drift:.1e} | {error:.1e} |"
            for (name, run), (drift, error) in worst.items()
        ),
    ]
    if "spread" in results:
        lines += [
            f"\nA model spread over two cards by `device_map` (run 2, float32, width "
            f"{results['spread']['width']}): packed rows against LogitTree "
            f"{results['spread']['flex max']:.1e} nats, gradients against one card "
            f"{results['spread']['flex gradient']:.1e}.",
            "\nbf16, tree A packed against its last branch alone (run 3): "
            + ", ".join(
                f"{name.split()[0]} largest {off['max']:.2g}, mean {off['mean']:.2g} nats"
                for name, off in results["alone"].items()
            )
            + ".",
        ]
    for title, off in results["rounding"].items():
        shape, tree = title.split()
        lines += [
            f"\nbf16 against float32 LogitTree, {shape}, tree {tree}, nats:\n",
            "| | |\n|---|---|",
            *(f"| {name} | {value:.4f} |" for name, value in off.items()),
        ]
    return "\n".join(lines)


def _profiles(results: dict[str, Any]) -> str:
    """Device time of one training step by kind of kernel."""
    lines = [
        f"\n### Where device time goes, ms (run {results['profiled']})\n",
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


def _tidy(found: dict[str, Any]) -> str:
    """The tidy demo's views on a CPU."""
    rows = found["rows"].values()
    cores = sum(row["core_seconds"] for row in rows)
    lines = [
        f"\n## The tidy demo on {found['cores']} CPU cores, {found['date']}\n",
        f"Its four views with the embedded model (torch {found['torch']}, {found['threads']} "
        f"threads, `python -m bench.tidy_demo`), self-check included: {cores:.1f} core seconds, "
        f"{cores / found['cores']:.1f} s on free cores (bar 10). The machine was busy (load "
        f"{found['load']:.0f}): the clock, and the prediction, which is calibrated on the machine "
        "as it is, are higher.\n",
        "| view | runs | tokens | predicted s | s | core s |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found["rows"].items():
        times = (row["predicted"], row["seconds"], row["core_seconds"])
        cells = (name, row["method"], str(row["tokens"]), *(f"{one:.1f}" for one in times))
        lines.append(f"| {' | '.join(cells)} |")
    chosen = found["rows"]["exact"]["method"]
    costs = " and ".join(f"{name} {spent:.1f}" for name, spent in found["exact"].items())
    lines.append(f"\n`exact` chose {chosen}; without self-checks {costs} core seconds.")
    return "\n".join(lines)


def _structure(found: dict[str, Any]) -> str:
    lines = [
        f"\n## Structure, {found['date']}\n",
        "No model: tree, every view the rollout can be laid out in, pair counts of all of them, in "
        f"core seconds of a busy machine (load {found['load']:.0f} on 2 cores).\n",
        "| log | file MiB | calls | tree tokens | segments | read s | tree s | views s | pairs s "
        "| all s | MiB above start |",
        "|" + "---|" * 11,
    ]
    for name, row in found["rows"].items():
        steps = [row[key] for key in STEPS]
        cells = (
            name,
            f"{row['file_mib']:.1f}",
            f"{row['calls']:,}",
            f"{row['tree_tokens']:,}",
            f"{row['segments']:,}",
            *(f"{seconds:.2f}" for seconds in (*steps, sum(steps))),
            f"{row['above_start_mib']:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, _growth(found["rows"])])


def _growth(rows: dict[str, dict[str, Any]]) -> str:
    """What more tokens and more segments cost, in words."""
    said = []
    for words, few, many in (
        ("the same segments with {tokens:.0f} times the tokens take", "15k", "600k"),
        (
            "{calls:.0f} times the calls, with {segments:.0f} times the segments, take",
            "150k, 25 calls",
            "150k",
        ),
    ):
        one, other = rows[few], rows[many]
        times = {key: other[key] / one[key] for key in ("calls", "segments")}
        times["tokens"] = other["tree_tokens"] / one["tree_tokens"]
        spent = sum(other[key] for key in STEPS) / sum(one[key] for key in STEPS)
        said.append(f"{words.format(**times)} {spent:.1f} times as long")
    return f"\nGrowth: {'; '.join(said)}.\n"


if __name__ == "__main__":
    main()
