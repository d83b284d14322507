"""One document and one short table of all that the parts of `bench.card` found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import goals, performance_exact

SHAPES = ("0.6B", "1.7B", "tiny")
TREES = "ABCD"
KINDS = {
    "profile": "profiles",
    "rounding": "rounding",
    "alone": "alone",
    "pieces": "sweep",
    "batched": "batches",
    "more": "sweep",
    "tests": "tests",
    "pair": "pair",
    **dict.fromkeys(("one", "spread", "tensor"), "sharded"),
    **dict.fromkeys(("rollout-float32", "rollout-bfloat16"), "recorded"),
}
"""Where the results of a step are kept, by the last word of its name."""


def write(folder: Path, to: Path | None) -> None:
    """Prints the table of a folder's parts, and writes their document to a file if one is named."""
    parts = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    if not parts:
        print(f"{folder}: holds no results")
        return
    whole = document(parts)
    if to is not None:
        to.write_text(json.dumps(whole, indent=1) + "\n")
    print("\n".join(table(whole)))


def document(parts: dict[str, Any]) -> dict[str, Any]:
    """What `bench.performance_table` reads, from the parts by name."""
    first = next(iter(parts.values()))
    whole: dict[str, Any] = {name: first[name] for name in ("date", "device", "versions")}
    for name in ("timings", "exact", "failed"):
        whole[name] = []
    for name in ("rates", "widths", *KINDS.values()):
        whole[name] = {}
    for part in parts.values():
        for step, done in part["steps"].items():
            if "failed" in done["found"]:
                whole["failed"].append({"step": step, "lines": done["found"]["failed"]})
            else:
                _take(whole, step, done["found"])
    whole["timings"].sort(key=lambda row: (row["model"], row["workload"]))
    whole["exact"].sort(key=lambda choice: (choice["model"], choice["workload"]))
    whole["profiles"] = dict(sorted(whole["profiles"].items()))
    whole["rate"] = next(iter(whole["rates"].values()), 0.0)
    return whole


def _take(whole: dict[str, Any], step: str, found: Any) -> None:
    """Puts what one step found where it belongs, by the last word of its name."""
    title, _, kind = step.rpartition(" ")
    if kind in KINDS:
        where = KINDS[kind]
        plain = where in {"profiles", "tests", "pair"}
        whole[where] |= found if plain else {_key(where, step): found}
        return
    rows = found if step == "float32" else found["timings"]
    whole["timings"] += rows
    if title:
        whole["exact"].append(found["exact"])
        whole["rates"][step] = found["rate"]
        whole["widths"][title] = found["widths"]


def _key(where: str, step: str) -> str:
    """Name of a step's results among those of its kind."""
    if where == "sharded":
        return step.rpartition(" ")[2]
    return step if where in {"recorded", "sweep"} else step.rpartition(" ")[0]


def table(whole: dict[str, Any]) -> list[str]:
    """Lines: every bar with what was reached."""
    return [
        f"{whole['device']}, {whole['versions']}, {whole['rate'] / 1e12:.0f} TFLOP/s",
        *_speeds(whole),
        *_peers(whole),
        *_exactness(whole),
        *_recorded(whole),
        *_others(whole),
        *(f"FAILED {one['step']}: {one['lines'][-1]}" for one in whole["failed"]),
    ]


def _speeds(whole: dict[str, Any]) -> Iterator[str]:
    for shape in SHAPES:
        bars = goals.BARS.get(shape, goals.BARS["0.6B"])
        for tree in TREES:
            rows = {row["method"]: row for row in _rows(whole, shape, tree)}
            for name in [name for name, row in rows.items() if row["refused"]]:
                yield f"{shape} {tree} {name}: refused: {rows.pop(name)['refused']}"
            base = rows.get("logit_tree sdpa")
            plain = next((row for name, row in rows.items() if name.startswith("plain")), None)
            for name, row in rows.items():
                if not name.startswith("packed_mask") or "not compiled" in name:
                    continue
                train, score = bars[tree]
                cells = [
                    f"train {row['train'] * 1e3:.0f} ms x floor "
                    + goals.against(row["train_floors"], train),
                    f"score {row['forward'] * 1e3:.0f} ms x floor "
                    + goals.against(row["forward_floors"], score),
                ]
                if base is not None:
                    faster = base["train"] / row["train"]
                    cells.append(f"x LogitTree {goals.reached(faster, goals.LOGIT_TREE[tree])}")
                if plain is not None and plain["peak"]:
                    cells.append(f"peak {goals.against(row['peak'] / plain['peak'], goals.MEMORY)}")
                cells.append(f"first {goals.against(row['first'], goals.FIRST, '.0f')} s")
                cells.append(f"set-up {goals.against(row['setup'], goals.SETUP, '.4f')} s")
                cells.append(f"predicted {row['predicted'] * 1e3:.0f} ms")
                yield f"{shape} {tree} {name.removeprefix('packed_mask ')}: {'; '.join(cells)}"


def _rows(whole: dict[str, Any], shape: str, tree: str) -> list[dict[str, Any]]:
    wanted = shape, tree
    return [row for row in whole["timings"] if (row["model"], row["workload"]) == wanted]


def _peers(whole: dict[str, Any]) -> Iterator[str]:
    for tree, (peer, beside, bar) in goals.AREAL.items():
        rows = {row["method"]: row["train"] * 1e3 for row in _rows(whole, "0.6B", tree)}
        eager = rows.get("packed_mask flex, layers not compiled")
        for kernel in ("split", "varlen"):
            own = rows.get(f"packed_mask {kernel}")
            if own and eager:
                ratio = goals.against(own / (peer * eager / beside), bar)
                yield f"0.6B {tree} {kernel}: of AReaL's time, rescaled {ratio}; {own / peer:.2f}"


def _exactness(whole: dict[str, Any]) -> Iterator[str]:
    for name, found in performance_exact.float32_worst(whole).items():
        nats, relative = (
            goals.against(value, bar, ".1e")
            for value, bar in zip(found, goals.FLOAT32, strict=True)
        )
        yield f"float32 {name}: {nats} nats; gradient {relative}"
    for title, off in whole["rounding"].items():
        base = off["logit_tree sdpa max"]
        for name, value in off.items():
            if name.startswith("packed") and name.endswith("max"):
                held = goals.against(value, round(2 * base, 3), ".3f")
                yield f"16 bits {title} {name}: {held} nats"
    for title, off in whole["alone"].items():
        yield f"last branch alone, {title}: max {off['max']:.2g}, mean {off['mean']:.2g} nats"


def _recorded(whole: dict[str, Any]) -> Iterator[str]:
    narrow = {name: off for name, off in whole["recorded"].items() if name.endswith("bfloat16")}
    wide = {name: off for name, off in whole["recorded"].items() if not name.endswith("bfloat16")}
    if wide:
        for method in ("packed_mask", "logit_tree"):
            most = max(off[f"{method} max"] for off in wide.values())
            held = goals.against(most, goals.RECORDED, ".1e")
            yield f"recorded, float32, {len(wide)} rollouts, {method}: {held} nats"
    for name, off in narrow.items():
        most = float(f"{2 * off['logit_tree mean']:.3g}")
        packed = goals.against(off["packed_mask mean"], most, ".3g")
        yield f"recorded, {name}: mean {packed} nats, floor p50 {off['floor p50']:.3g}"


def _others(whole: dict[str, Any]) -> Iterator[str]:
    batches = {f"{name} batched": found for name, found in whole["batches"].items()}
    for step, found in (whole["sweep"] | batches).items():
        yield f"{step}: " + ", ".join(f"{name} {value:.4g}" for name, value in found.items())
    for how, found in whole["sharded"].items():
        for name, off in found.items():
            if isinstance(off, dict):
                yield f"two cards, {how}, {name}: {_words(off)}"
    yield from _tests(whole["tests"], "the card")
    yield from _tests(whole["pair"], "two cards")


def _tests(found: dict[str, Any], where: str) -> Iterator[str]:
    if found:
        yield f"tests on {where}: {found['last']}"
        for name, came_to in dict(found["results"]).items():
            if not came_to.startswith(("passed", "skipped")):
                yield f"tests on {where}: {name}: {came_to}"


def _words(found: dict[str, Any]) -> str:
    """Numbers short, what is nested behind a colon."""
    said = []
    for name, value in found.items():
        inner = f"[{_words(value)}]" if isinstance(value, dict) else value
        said.append(f"{name} {f'{value:.3g}' if isinstance(value, float) else inner}")
    return ", ".join(said)
