"""The part of docs/performance.md on where device time goes."""

from __future__ import annotations

from typing import Any

from bench.performance_prose import VARLEN

KINDS = {
    "plain attention": ("cudnn",),
    "FlexAttention": ("flex_attention",),
    "variable-length attention": ("pytorch_flash",),
    "products": ("nvjet",),
    "gathers, scatters, copies": ("indexFunc", "scatter_gather", "direct_copy", "Memcpy"),
}
"""Kernels by words of their names."""


def table(results: dict[str, Any]) -> str:
    """Device time of one pass by kind of kernel."""
    lines = [
        "\n### Where device time goes, ms\n",
        "| model, tree, kernel | " + " | ".join((*KINDS, "the rest", "all")) + " |",
        "|" + "---|" * (len(KINDS) + 3),
    ]
    for name in results["profiles"]:
        took = spent(results, name)
        words = name.removeprefix("qwen3-").split()
        kernel = next((word for word in words[2:] if word != "score"), "split")
        kind = "score" if words[-1] == "score" else "train"
        numbers = " | ".join(f"{ms:.0f}" for ms in took.values())
        lines.append(f"| {words[0]} {words[1]} {kernel}, {kind} | {numbers} |")
    return "\n".join([*lines, VARLEN])


def spent(results: dict[str, Any], name: str) -> dict[str, float]:
    """Milliseconds of a profiled pass by kind of kernel, then of the rest and of all."""
    found = dict.fromkeys(KINDS, 0.0)
    *kernels, (_name, _calls, total) = results["profiles"][name]
    for kernel, _calls, ms in kernels:
        kind = next((kind for kind, words in KINDS.items() if any(w in kernel for w in words)), "")
        if kind:
            found[kind] += ms
    return found | {"the rest": total - sum(found.values()), "all": total}
