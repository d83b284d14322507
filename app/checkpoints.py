"""Checkpoints that trainings of this user left: models that the app offers beside the named ones.

A checkpoint is named by its folder; pages show its run and arm only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import platformdirs

from mwviz.engine.chain import ABOUT, called, chain
from mwviz.engine.embedded import EMBEDDED
from mwviz.errors import ModelError

MOST = 40
"""Checkpoints offered, the latest first."""


def folder() -> Path:
    """Where the app's training runs are kept."""
    return Path(platformdirs.user_data_dir("mwviz", appauthor=False)) / "training"


def found() -> list[str]:
    """Folders of the checkpoints, the latest run's first."""
    if not folder().is_dir():
        return []
    paths = sorted(path.parent for path in folder().glob(f"*/arms/*/{ABOUT}"))
    return [str(path) for path in reversed(paths) if "." not in path.name][:MOST]


def shown(model: str | None) -> str:
    """A model's name as pages show it: of a checkpoint its run and arm."""
    if model is None:
        return EMBEDDED
    path = Path(model)
    mine = path.is_relative_to(folder())
    return f"{path.parent.parent.name} · {path.name}" if mine else model


class Readable(NamedTuple):
    """An offered model, and the name that its scores carry."""

    model: str | None
    scored_as: str


def readable(offered: Iterable[str | None]) -> list[Readable]:
    """The offered models but for damaged checkpoints, which a run of them refuses by name."""
    found = []
    for model in offered:
        try:
            found.append(Readable(model, scored_as(model)))
        except ModelError:
            continue
    return found


def scored_as(model: str | None) -> str:
    """The name that scores of a model carry.

    Raises:
        ModelError: it is a damaged checkpoint.
    """
    made_of = chain(model or EMBEDDED, None)
    base = made_of.model.rstrip("/").rsplit("/", 1)[-1]
    return "+".join((base, *map(called, made_of.folders)))
