"""What outlives a start of the app, in the user's cache: recent rollouts, slices, seen marks.

Paths are written here and shown nowhere: the app offers only those that were named at its start,
and addresses hold their ids. A file that cannot be read or written counts as empty.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs

MOST_RECENT = 20
"""Rollouts remembered, of all starts together."""
MOST_SLICES = 50


class Place(NamedTuple):
    """A rollout in a file."""

    path: str
    rollout: int


Slice = dict[str, tuple[float, float]]
"""Lowest and highest value that a row may have, by column."""


def recent() -> list[Place]:
    """Rollouts that were opened, the latest first."""
    return [
        Place(entry["path"], entry["rollout"])
        for entry in _list(_read().get("recent"))
        if isinstance(entry, dict)
        and isinstance(entry.get("path"), str)
        and isinstance(entry.get("rollout"), int)
    ]


def remember(place: Place) -> None:
    """Puts a rollout first among the recent ones."""

    def change(held: dict[str, Any]) -> None:
        others = [other for other in recent() if other != place]
        held["recent"] = [one._asdict() for one in [place, *others][:MOST_RECENT]]

    _change(change)


def coached() -> bool:
    """Whether the marks for a first visit were put away."""
    return _read().get("coached") is True


def set_coached() -> None:
    """Puts the marks for a first visit away for good."""
    _change(lambda held: held.update(coached=True))


def slices() -> dict[str, Slice]:
    """Saved filters of the triage by name, as far as they are well formed."""
    found: dict[str, Slice] = {}
    held = _read().get("slices")
    for name, ranges in held.items() if isinstance(held, dict) else ():
        if isinstance(ranges, dict) and all(_is_range(r) for r in ranges.values()):
            found[name] = {column: (float(a), float(b)) for column, (a, b) in ranges.items()}
    return found


def save_slice(name: str, chosen: Slice) -> None:
    """Keeps a filter under a name; an empty one forgets the name."""

    def change(held: dict[str, Any]) -> None:
        kept: dict[str, Any] = {**slices(), name: chosen}
        if not chosen:
            del kept[name]
        held["slices"] = dict(list(kept.items())[-MOST_SLICES:])

    _change(change)


def _is_range(value: object) -> bool:
    numbers = _list(value)
    return len(numbers) == 2 and all(  # noqa: PLR2004  # lowest and highest
        isinstance(number, int | float) and not isinstance(number, bool) for number in numbers
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _path() -> Path:
    return Path(platformdirs.user_cache_dir("mwviz", appauthor=False)) / "app.json"


def _read() -> dict[str, Any]:
    try:
        held = json.loads(_path().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def _change(change: Callable[[dict[str, Any]], None]) -> None:
    held = _read()
    change(held)
    path = _path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8"
        ) as stream:
            json.dump(held, stream)
        Path(stream.name).replace(path)
    except OSError:
        return  # a cache that cannot be written only forgets
