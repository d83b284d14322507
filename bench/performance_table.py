"""Makes `docs/performance.md` from the newest results under `bench/results`.

python -m bench.performance_table > docs/performance.md
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import performance_cards, performance_cpu, performance_goals, performance_profiles
from bench.goals import BARS
from bench.performance_cpu import STEPS
from bench.performance_exact import exactness
from bench.performance_prose import HEAD, MISSES, TAIL, TITLE
from bench.performance_summary import summary
from mwviz.engine import timing

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    results, cards = (
        json.loads(max(RESULTS.glob(f"{name}-*.json")).read_text()) for name in ("h200", "h200x2")
    )
    cpu = {
        name: json.loads((RESULTS / f"{name}.json").read_text())
        for name in ("tidy", "exact_cpu", "structure")
    }
    print(TITLE)
    print(summary(results, cpu))
    print(HEAD)
    print(measured(performance_cards.without(results, cards)))
    print(performance_cards.section(cards, results))
    print(performance_cpu.tidy(cpu["tidy"]))
    print(performance_cpu.exact(cpu["exact_cpu"]))
    print(_structure(cpu["structure"]))
    print(TAIL, end="")


def measured(results: dict[str, Any]) -> str:
    """What a run on a card found: a document of `bench.card_report`."""
    rows = {shape: [row for row in results["timings"] if row["model"] == shape] for shape in BARS}
    parts = [
        _where(results),
        *(_speed(shape, found) for shape, found in rows.items() if found),
        performance_goals.table(results),
        performance_goals.missed(results),
        MISSES,
        performance_goals.peers(results),
        exactness(results),
        *performance_cards.batches(results, results),
        *performance_cards.sharded(results),
        *performance_cards.tests(results),
        performance_profiles.table(results),
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


def _speed(shape: str, rows: list[dict[str, Any]]) -> str:
    refused = [
        f"{row['workload']}, {row['method']}: {row['refused']}." for row in rows if row["refused"]
    ]
    return "\n\n".join(["\n".join([f"\n### {shape}\n", *timing.table(rows)]), *refused])


def _sweep(results: dict[str, Any]) -> str:
    """Training with other pieces, batches or kept numbers; "" if it was not tried."""
    if not results["sweep"]:
        return ""
    lines = [
        "\n### Tried beside it\n",
        "Seconds of a training step (`keeps more`: and its peak in bytes): pieces from so many "
        "pairs on, LogitTree in padded batches outside the engine, nothing made again in the "
        "backward pass.\n",
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
        (
            "{segments:.0f} times the segments of the 150k log, with fewer tokens, take",
            "150k",
            "branchy",
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
