"""Checkpoints that trainings of this user left: models that the app offers beside the named ones.

A checkpoint is named by its folder; pages show its run and arm only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import platformdirs

from mwviz.engine.chain import ABOUT, ARMS, called, chain
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


def named(name: str, offered: Iterable[str | None]) -> str | None:
    """The model whose scores carry a name; None is the embedded one.

    Args:
        name: as `scored_as` gives it.
        offered: models that are looked through first; then the checkpoints of all runs.

    Raises:
        ModelError: it is a damaged checkpoint, or gone, or is not offered: says what to do.
    """
    for one in readable(offered):
        if one.scored_as == name:
            return one.model
    place = _place(name)
    if place is None:
        raise ModelError(
            f"{name}: this start of the app does not offer it. Start it with --model and the "
            "model's folder or name, or choose another model under Judged by"
        )
    again = "Train it again in the Train lab, or choose another model under Judged by"
    if not (place / ABOUT).is_file():
        raise ModelError(f"{place}: the checkpoint is gone, expected {ABOUT} in it. {again}")
    try:
        found = scored_as(str(place))
    except ModelError as error:
        raise ModelError(f"{error}: the checkpoint is damaged. {again}") from error
    if found != name:
        raise ModelError(f"{place}: is a checkpoint of {found} now, expected {name}. {again}")
    return str(place)


def written(name: str) -> int | None:
    """When the checkpoint whose scores carry a name was last written; None if there is none.

    In nanoseconds, as files have it.
    """
    place = _place(name)
    try:
        return (place / ABOUT).stat().st_mtime_ns if place is not None else None
    except OSError:
        return None


def scored_as(model: str | None) -> str:
    """The name that scores of a model carry.

    Raises:
        ModelError: it is a damaged checkpoint.
    """
    made_of = chain(model or EMBEDDED, None)
    base = made_of.model.rstrip("/").rsplit("/", 1)[-1]
    return "+".join((base, *map(called, made_of.folders)))


def _place(name: str) -> Path | None:
    """Where the checkpoint of a name lies if there is one; None for the name of another model."""
    run, _, arm = name.rpartition("+")[2].rpartition("/")
    return folder() / run / ARMS / arm if run else None
