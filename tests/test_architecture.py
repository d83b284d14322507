from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    ("errors", "extras", "prefix", "sharing", "rollout", "semantics", "display", "wording"),
    ("formats",),
    ("recorder", "token_rows"),
    (
        *("tokenizer", "rendering", "encoding", "pieces", "decoder", "neutral", "tokens"),
        *("templates", "cutter", "templated", "readers"),
    ),
    ("trie", "runs", "entries", "caches", "lineages", "recurring", "identity", "targets", "tree"),
    ("changes", "junctions", "notes", "undo", "evidence", "retokenised"),
    ("batch_rows", "batch", "views"),
    ("births", "tainting", "shown", "judging", "pairs", "windows", "sdcc", "policy"),
    ("engine",),
    ("bound", "metrics", "temperature", "compare", "contrast", "gap", "quantise"),
    ("store", "token_store", "scorer", "analysis", "trace"),
    (
        "badge",
        "summary",
        "limits",
        "scoring",
        "leaks",
        "exports",
        "verdict",
        "stress",
        "demos",
        "simulate",
        "doctor",
    ),
    ("causes", "attended", "restored", "distances", "quotes", "account", "details", "why"),
    ("training",),
    ("packing", "viewpacking", "numberpacking", "payload", "figures"),
    ("jobs",),
    ("worker", "serve"),
    (
        *("console", "options", "trace_commands", "score_command", "token_commands"),
        *("train_printed", "train_command", "convert_commands", "record_command"),
        *("machine_commands", "cli"),
        "__main__",
    ),
)
"""From the ground up: a module imports its own layer and those before it."""
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}
EXCEPTIONS = {
    ("tokenizer", "engine"): "finds the embedded model's tokenizer file",
}
HEAVY = {
    "torch": ("engine", "training", "doctor"),
    "plotly": ("figures", "report"),
    "streamlit": (),
}
"""Which modules may import a heavy package."""


def modules() -> list[Path]:
    return sorted((ROOT / "mwviz").rglob("*.py"))


def top(path: Path) -> str:
    return path.relative_to(ROOT / "mwviz").parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    own = top(path)
    if own == "__init__":
        return
    assert own in LEVEL, f"{own} has no layer yet"
    used = {name.split(".")[1] for name in imported(path) if name.startswith("mwviz.")}
    upward = {
        name
        for name in used & set(LEVEL)
        if LEVEL[name] > LEVEL[own] and (own, name) not in EXCEPTIONS
    }
    assert not upward
    assert not any(name.startswith("mwviz_app") for name in imported(path))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_packages_stay_where_they_belong(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported(path)}
    for package, allowed in HEAVY.items():
        assert package not in roots or top(path) in allowed


@pytest.mark.parametrize("module", ["mwviz", "mwviz.cli", "mwviz.payload", "mwviz.worker"])
def test_a_plain_import_loads_nothing_heavy(module: str) -> None:
    heavy = ("torch", "transformers", "pandas", "plotly", "networkx", "streamlit")
    script = f"import sys, {module}\nprint([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
