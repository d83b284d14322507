"""The modules of `mwviz/frontend` as one text: a page then gets them with one message.

Each module becomes a function that returns what it exports, so that names stay its own. Understood
is what our modules use: one import or export a line, whole names, no cycles, no default export.
"""

from __future__ import annotations

import re
from pathlib import Path

import mwviz

FOLDER = Path(mwviz.__file__).with_name("frontend")
IMPORT = re.compile(r'^import \{ (.+) \} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function\*?|const) (\w+|\[[\w, ]+\])", re.MULTILINE)
LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundled(entry: str, folder: Path = FOLDER) -> str:
    """The module `entry` and all that it imports as the body of a function that gives its exports.

    Raises:
        ValueError: a module imports itself in the end, or has an import or export of another form.
    """
    parts: dict[str, str] = {}
    _add(entry, folder, parts, ())
    return "\n".join([*parts.values(), f"return ${entry};\n"])


def _add(name: str, folder: Path, parts: dict[str, str], within: tuple[str, ...]) -> None:
    """Puts a module into `parts`, behind what it imports."""
    if name in within:
        raise ValueError(f"{name}.js imports itself: {' -> '.join([*within, name])}")
    source = (folder / f"{name}.js").read_text(encoding="utf-8")
    for _, needed in IMPORT.findall(source):
        if needed not in parts:
            _add(needed, folder, parts, (*within, name))
    parts[name] = _scoped(name, source)


def _scoped(name: str, source: str) -> str:
    given = [each for _, found in EXPORT.findall(source) for each in re.findall(r"\w+", found)]
    body = IMPORT.sub(r"const { \1 } = $\2;\n", source)
    body = EXPORT.sub(r"\1 \2", body)
    left = LEFT.search(body)
    if left:
        raise ValueError(f"{name}.js: cannot be bundled: {left[0]!r}; expected one import a line")
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {', '.join(given)} }};\n}})();"
