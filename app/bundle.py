"""The modules of `mwviz/frontend` as one: a page then loads them with its first message.

Each module becomes a function that returns what it exports, so that names stay its own. Understood
is what our modules use: one import or export a line, whole names, no cycles.
"""

from __future__ import annotations

import re
from pathlib import Path

import mwviz

FOLDER = Path(mwviz.__file__).with_name("frontend")
IMPORT = re.compile(r'^import \{ (.+) \} from "\./(\w+)\.js";\n', re.MULTILINE)
DEFAULT = re.compile(r"^export default function", re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function\*?|const) (\w+|\[[\w, ]+\])", re.MULTILINE)
LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundled(entry: str, folder: Path = FOLDER) -> str:
    """The module `entry` and all that it imports as the text of one module.

    Raises:
        ValueError: a module imports itself in the end, or has an import or export of another form.
    """
    parts: dict[str, str] = {}
    _add(entry, folder, parts, ())
    return "\n".join([*parts.values(), f"export default ${entry}.$default;\n"])


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
    if DEFAULT.search(source):
        given.append("$default")
    body = IMPORT.sub(r"const { \1 } = $\2;\n", source)
    body = EXPORT.sub(r"\1 \2", DEFAULT.sub("const $default = function", body))
    left = LEFT.search(body)
    if left:
        raise ValueError(f"{name}.js: cannot be bundled: {left[0]!r}; expected one import a line")
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {', '.join(given)} }};\n}})();"
