"""Checkpoints that trainings of this user left: models that the app offers beside the named ones.

A checkpoint is named by its folder; pages show its run and arm only.
"""

from __future__ import annotations

from pathlib import Path

import platformdirs

from mwviz.engine.chain import ABOUT, called, chain
from mwviz.engine.embedded import EMBEDDED

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


def scored_as(model: str | None) -> str:
    """The name that scores of a model carry."""
    made_of = chain(model or EMBEDDED, None)
    base = made_of.model.rstrip("/").rsplit("/", 1)[-1]
    return "+".join((base, *map(called, made_of.folders)))
