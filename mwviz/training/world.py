"""What else is measured at every look, with the weights as they are: a user's own code, by name.

A name is `MODULE:NAME`, as `python -m` finds the module: from the folder where the command runs.
What one that is named gives is judged here, so that it can stand beside the numbers of a look. No
torch here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from mwviz.errors import ModelError, MwvizError, ViewError, first_line
from mwviz.training.reports import WatchReport

if TYPE_CHECKING:
    from mwviz.engine.model import Model

World = Callable[["Model"], Mapping[str, float]]
"""What is measured of a model (reward, accuracy of copies), by name."""
TAKEN = {field.name for field in fields(WatchReport)} | {"arm", "event"}
"""Names of a look's own numbers, in the table `watch` and in what is printed."""


def world_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Those columns of the table `watch` that a world measured."""
    return tuple(name for name in map(str, columns) if name not in TAKEN)


def named_world(name: str | None) -> World | None:
    """The measure of that name, whose numbers are judged when it is called.

    Args:
        name: `MODULE:NAME`; None names none.

    Raises:
        ViewError: there is no such module, it cannot be imported, or has nothing to call there.
    """
    if name is None:
        return None
    module, colon, called = name.partition(":")
    if not (module and colon and called):
        raise ViewError(f"--world {name}: expected MODULE:NAME, as python -m finds the module")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with redirect_stdout(sys.stderr):
            found = getattr(import_module(module), called, None)
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        raise ViewError(
            f"--world {name}: cannot be imported from {here}: {type(error).__name__}: "
            f"{first_line(error)}{_place(error)}"
        ) from error
    if not callable(found):
        raise ViewError(f"--world {name}: {module} has no {called} that can be called")
    return lambda model: _measured(found, model, name)


def _measured(measure: Callable[[Model], Any], model: Model, name: str) -> dict[str, float]:
    """What a measure gives, by name.

    Raises:
        ModelError: it raises, or gives no numbers by names of their own.
    """
    try:
        with redirect_stdout(sys.stderr):  # Steps and looks alone go to stdout.
            told = measure(model)
    except MwvizError:
        raise
    except (Exception, SystemExit) as error:  # whatever a user's code may raise
        raise ModelError(
            f"--world {name} raised {type(error).__name__}: {first_line(error)}{_place(error)}"
        ) from error
    if not isinstance(told, Mapping) or not told:
        raise ModelError(
            f"--world {name} gave {told!r:.60}; expected numbers by name, {{'x': 1.0}}"
        )
    numbers = {}
    for key, value in told.items():
        if not isinstance(key, str) or key in TAKEN:
            raise ModelError(
                f"--world {name} gave {key!r}, which names a number of the look itself"
            )
        try:
            numbers[key] = math.nan if isinstance(value, str) else float(value)
        except (TypeError, ValueError):
            numbers[key] = math.nan
        if not math.isfinite(numbers[key]):
            raise ModelError(f"--world {name} gave {key} = {value!r:.60}; expected a finite number")
    return numbers


def _place(error: BaseException) -> str:
    """Where in the user's code it was raised."""
    frames = [one for one in extract_tb(error.__traceback__) if one.filename != __file__]
    frames = [one for one in frames if "importlib" not in one.filename]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
