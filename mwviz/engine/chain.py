"""What a model is made of: the one that is loaded, and the adapters or checkpoints put on it.

A checkpoint of a training says itself which model it changes, and what had changed that before.
No torch here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from mwviz.engine import embedded
from mwviz.engine.located import readable
from mwviz.errors import ModelError

ABOUT = "training.json"
"""File of a checkpoint that says what it was trained from."""


ARMS = "arms"
"""Folder of a training run that holds the checkpoints of its arms."""


class Chain(NamedTuple):
    """A model and what is put on it, in order."""

    model: str
    """Name or path, without adapters."""
    folders: tuple[Path, ...]
    """Of adapters, or of checkpoints of all weights."""


def called(folder: Path) -> str:
    """A checkpoint's name in a model's: of an arm with its run, as runs share the names of arms."""
    in_run = folder.parent.name == ARMS
    return f"{folder.parent.parent.name}/{folder.name}" if in_run else folder.name


def chain(name: str, adapter: Path | None) -> Chain:
    """What a user's words stand for.

    Args:
        name: a model's, the demos' agent's, or the folder of a checkpoint that knows its model.
        adapter: folder of an adapter or checkpoint to put on it; None puts nothing.

    Raises:
        ModelError: the checkpoint is damaged, cannot be read, or was trained from something else.
    """
    if name == embedded.AGENT:
        base = Chain(embedded.EMBEDDED, (embedded.AGENT_ADAPTER,))
    elif _knows(Path(name)):
        about = _about(Path(name))
        if not about.get("model"):
            raise ModelError(f"{name}: does not know its model; name that, and this as adapter")
        base = Chain(str(about["model"]), (*_before(about), Path(name)))
    else:
        base = Chain(name, ())
    if adapter is None:
        return base
    before = _before(_about(adapter)) if _knows(adapter) else ()
    if before and base.folders and base.folders != before:
        names = " and ".join(folder.name for folder in before)
        raise ModelError(f"{adapter.name}: was trained on top of {names}, which {name} is not")
    return Chain(base.model, (*(before or base.folders), adapter))


def _knows(folder: Path) -> bool:
    """Whether a checkpoint in the folder says what it was trained from."""
    with readable(str(folder)):
        return (folder / ABOUT).is_file()


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / ABOUT).read_text())
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder / ABOUT}: cannot be read: {error}") from error
    if not isinstance(about, dict) or not isinstance(about.get("adapters", []), list):
        raise ModelError(f"{folder / ABOUT}: is not what a training writes")
    return about


def _before(about: dict[str, Any]) -> tuple[Path, ...]:
    return tuple(Path(str(folder)) for folder in about.get("adapters", []))
