"""Writes the tables of methods and formats into README.md from the registries.

python bench/readme_tables.py
"""

from __future__ import annotations

import re
from pathlib import Path

from mwviz.formats import FORMATS
from mwviz.views import METHODS

README = Path(__file__).parents[1] / "README.md"
EXACT_FOR = {"re_prefill": "re-prefill", "kv_orig": "kept caches", None: "-"}


def tables() -> dict[str, str]:
    """Markdown by the name of the section it belongs to."""
    methods: list[tuple[str, ...]] = [
        ("method", "what the model is fed", "exact for", "why not elsewhere")
    ]
    methods += [
        (f"`{m.name}`", m.summary, EXACT_FOR.get(m.exact_for, "-"), m.why_not) for m in METHODS
    ]
    formats: list[tuple[str, ...]] = [("format", "", "how true", "what it can never tell")]
    formats += [(f"`{f.name}`", f.title, f.fidelity, f.unknowable) for f in FORMATS]
    return {"methods": _table(methods), "formats": _table(formats)}


def filled(text: str) -> str:
    """The README with both tables made anew."""
    for name, table in tables().items():
        section = re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
        made = f"<!-- {name} -->\n{table}\n<!-- /{name} -->"
        text = section.sub(made.replace("\\", r"\\"), text)
    return text


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


if __name__ == "__main__":
    README.write_text(filled(README.read_text()))
