"""Makes `docs/performance.md` from the newest results under `bench/results`.

python -m bench.performance_table > docs/performance.md
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import performance_cards, performance_cpu
from bench.goals import AREAL, BARS, FIRST, LOGIT_TREE, MEMORY, SETUP, against, reached
from bench.performance_exact import exactness
from bench.performance_prose import HEAD, MISSES, TAIL, VARLEN

RESULTS = Path(__file__).parent / "results"
KINDS = {
    "plain attention": ("cudnn",),
    "FlexAttention": ("flex_attention",),
    "variable-length attention": ("pytorch_flash",),
    "products": ("nvjet",),
    "gathers, scatters, copies": ("indexFunc", "scatter_gather", "direct_copy", "Memcpy"),
}
"""Kernels by words of their names."""
STEPS = ("read_s", "tree_s", "views_s", "pairs_s")
"""Columns of a log's structure that add up."""
GIB = 2**30
BESIDE = ("logit_tree", "plain")
"""Methods that what `exact` takes is compared with."""


class _Taken(NamedTuple):
    """What `exact` takes for a tree, beside LogitTree and a plain causal pass."""

    shape: str
    tree: str
    row: dict[str, Any]
    base: dict[str, Any] | None
    plain: dict[str, Any] | None


def main() -> None:
    results, cards = (
        json.loads(max(RESULTS.glob(f"{name}-*.json")).read_text()) for name in ("h200", "h200x2")
    )
    print(HEAD)
    print(measured(performance_cards.without(results, cards)))
    print(performance_cards.section(cards, _packed(results)))
    print(performance_cpu.tidy(json.loads((RESULTS / "tidy.json").read_text())))
    print(performance_cpu.exact(json.loads((RESULTS / "exact_cpu.json").read_text())))
    print(_structure(json.loads((RESULTS / "structure.json").read_text())))
    print(TAIL, end="")


def measured(results: dict[str, Any]) -> str:
    """What a run on a card found: a document of `bench.card_report`."""
    rows = {shape: [row for row in results["timings"] if row["model"] == shape] for shape in BARS}
    parts = [
        _where(results),
        *(_speed(shape, found) for shape, found in rows.items() if found),
        _goals(results),
        _missed(results),
        MISSES,
        _peers(results),
        exactness(results),
        *performance_cards.batches(results, _packed(results)),
        *performance_cards.sharded(results),
        *performance_cards.tests(results),
        _profiles(results),
        _sweep(results),
    ]
    return "\n".join(part for part in parts if part)


def _where(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    rate = results["rate"] / 1e12
    return (
        f"## One {results['device']}, {results['date']}\n\n{versions}; bf16, random weights, Qwen3 "
        f"shapes; a large product reaches {rate:.0f} TFLOP/s. Score: every log-probability with "
        "entropy, rank and hidden state, table included. Train: loss and gradient, masks included. "
        "First: the first of both, with compilation and self-check."
        + "".join(
            f"\n\n{one['step']} was not measured: {one['lines'][-1].partition('. ')[0]}."
            for one in results["failed"]
        )
    )


def _packed(results: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Seconds of a training step with one packed row, by model and tree."""
    return {
        (row["model"], row["workload"]): row["train"]
        for row in results["timings"]
        if row["method"] == performance_cards.PREFERRED and not row["refused"]
    }


def _speed(shape: str, rows: list[dict[str, Any]]) -> str:
    lines = [
        f"\n### {shape}\n",
        "| tree | method and kernel | score ms (x floor) | train ms (x floor) | x LogitTree "
        "| tokens/s | peak GiB | set-up ms | first s | max d nats | gradient error "
        "| predicted ms |",
        "|" + "---|" * 12,
    ]
    refused = []
    for row in rows:
        if row["refused"]:
            cells = [row["workload"], row["method"], "does not fit", *["-"] * 9]
            refused.append(f"{row['workload']}, {row['method']}: {row['refused']}.")
        else:
            cells = _numbers(row, _row(rows, row["workload"], "logit_tree"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n\n".join(["\n".join(lines), *refused])


def _numbers(row: dict[str, Any], base: dict[str, Any] | None) -> list[str]:
    """Cells of a method that was run."""
    score = f"{row['forward'] * 1e3:.0f} ({row['forward_floors']:.2f})"
    return [
        row["workload"],
        row["method"] + (", layers run twice" if row["recomputed"] else ""),
        score if row["forward"] else "-",
        f"{row['train'] * 1e3:.0f} ({row['train_floors']:.2f})",
        "-" if base is None else f"{base['train'] / row['train']:.2f}",
        f"{row['tokens_per_second']:,.0f}",
        f"{row['peak'] / GIB:.1f}",
        f"{row['setup'] * 1e3:.1f}",
        f"{row['first']:.1f}",
        _small(row["max_drift"]),
        _small(row["gradient_error"]),
        f"{row['predicted'] * 1e3:.0f}",
    ]


def _row(rows: list[dict[str, Any]], tree: str, method: str) -> dict[str, Any] | None:
    """The first of a tree's methods that begins so and was run; the preferred kernel is first."""
    found = (row for row in rows if row["workload"] == tree and not row["refused"])
    return next((row for row in found if row["method"].startswith(method)), None)


def _small(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def _taken(results: dict[str, Any]) -> Iterator[_Taken]:
    """What `exact` takes, of each model and tree that was measured."""
    for choice in results["exact"]:
        shape, tree = choice["model"], choice["workload"]
        rows = [row for row in results["timings"] if row["model"] == shape]
        row, *beside = (_row(rows, tree, name) for name in (choice["method"], *BESIDE))
        if row is not None and shape in BARS:
            yield _Taken(shape, tree, row, *beside)


def _goals(results: dict[str, Any]) -> str:
    """What `exact` reaches against what the project aims for."""
    lines = [
        "\n### Goals and what `exact` reaches\n",
        "| model, tree | `exact` takes | train x floor (bar) | score x floor (bar) "
        "| against compiled LogitTree (bar) | peak / plain causal pass (bar) | set-up s (bar) "
        "| first call s (bar) |",
        "|" + "---|" * 8,
    ]
    for one in _taken(results):
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


def _missed(results: dict[str, Any]) -> str:
    """Where the time goes of each pass that takes longer than its bar."""
    head = [
        "\nWhere a pass takes longer than its bar, in floors: what kernels take on the device, and "
        "how long it waits.\n",
        "| model, tree | reached (bar) | attention | products | the rest | waits |",
        "|" + "---|" * 6,
    ]
    lines = []
    for one in _taken(results):
        for kind, bar, time, floors in (
            ("", BARS[one.shape][one.tree][0], "train", "train_floors"),
            (" score", BARS[one.shape][one.tree][1], "forward", "forward_floors"),
        ):
            name = f"qwen3-{one.shape} {one.tree}{kind}"
            if one.row[floors] <= bar or name not in results["profiles"]:
                continue
            spent, floor = _spent(results, name), one.row[time] * 1e3 / one.row[floors]
            attention = spent["plain attention"] + spent["FlexAttention"]
            rest = spent["all"] - attention - spent["products"]
            waits = one.row[time] * 1e3 - spent["all"]
            parts = (attention, spent["products"], rest, waits)
            numbers = " | ".join(f"{part / floor:.2f}" for part in parts)
            said = against(one.row[floors], bar).partition(",")[0].rstrip(")")
            lines.append(f"| {name.removeprefix('qwen3-')} | {said}) | {numbers} |")
    return "\n".join([*head, *lines]) if lines else ""


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
            if (row["model"], row["workload"]) == ("0.6B", tree) and not row["refused"]
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


def _profiles(results: dict[str, Any]) -> str:
    """Device time of one pass by kind of kernel."""
    lines = [
        "\n### Where device time goes, ms\n",
        "| model, tree, kernel | " + " | ".join((*KINDS, "the rest", "all")) + " |",
        "|" + "---|" * (len(KINDS) + 3),
    ]
    for name in results["profiles"]:
        spent = _spent(results, name)
        words = name.removeprefix("qwen3-").split()
        kernel = next((word for word in words[2:] if word != "score"), "split")
        kind = "score" if words[-1] == "score" else "train"
        numbers = " | ".join(f"{ms:.0f}" for ms in spent.values())
        lines.append(f"| {words[0]} {words[1]} {kernel}, {kind} | {numbers} |")
    return "\n".join([*lines, VARLEN])


def _spent(results: dict[str, Any], name: str) -> dict[str, float]:
    """Milliseconds of a profiled pass by kind of kernel, then of the rest and of all."""
    spent = dict.fromkeys(KINDS, 0.0)
    *kernels, (_name, _calls, total) = results["profiles"][name]
    for kernel, _calls, ms in kernels:
        kind = next((kind for kind, words in KINDS.items() if any(w in kernel for w in words)), "")
        if kind:
            spent[kind] += ms
    return spent | {"the rest": total - sum(spent.values()), "all": total}


def _sweep(results: dict[str, Any]) -> str:
    """Training with other pieces, batches or kept numbers; "" if it was not tried."""
    if not results["sweep"]:
        return ""
    lines = [
        "\n### Tried beside it\n",
        "Seconds of a training step (`keeps more`: and its peak in bytes): pieces from so many "
        "pairs on, LogitTree in padded batches and row by row, nothing made again in the backward "
        "pass.\n",
        "| step | found |\n|---|---|",
    ]
    for step, found in results["sweep"].items():
        said = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
        lines.append(f"| {step} | {said} |")
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
