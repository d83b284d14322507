"""Where a model's files are, from its name: a folder, a GGUF file, the embedded model or the hub.

Reads no weights and loads no torch; the hub is asked once, for a name that is nothing here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from mwviz.engine import embedded
from mwviz.errors import ModelError, SetupError

PATIENCE = 5.0
"""Seconds that the hub may take to answer before it counts as out of reach."""
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


class Located(NamedTuple):
    """A model's files."""

    name: str
    location: str
    """Local folder, or hub id."""
    gguf: str | None = None
    """Name of its one file in the folder; None for safetensors."""
    local: bool = True
    """Whether the location is a folder."""
    commit: str | None = None
    """The hub's, where the folder is what was fetched of it before."""


def locate(name: str) -> Located:
    """Where the weights are.

    Args:
        name: of the embedded model, a local folder, a GGUF file or a hub id.

    Raises:
        ModelError: It is none of them, holds only pickles, or the hub has no such model.
        SetupError: The embedded model is asked for and not installed.
    """
    path = Path(name)
    if path.suffix in _PICKLES:
        raise ModelError(
            f"{path.name}: pickled weights can run code when they are read; "
            "convert them to safetensors"
        )
    if name and path.is_dir():
        return _folder(path)
    if path.suffix == ".gguf" or path.is_file():
        return _file(path)
    if name == embedded.EMBEDDED:
        folder = embedded.path()
        if folder is None:
            raise SetupError(f"{name} is not installed; run: mwviz doctor --install-model")
        return Located(name, str(folder))
    if not _HUB_ID.fullmatch(name):
        raise ModelError(f"{name or repr(name)}: no such folder, and not a hub id (owner/name)")
    return _on_hub(name)


def _file(path: Path) -> Located:
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    if path.suffix != ".gguf":
        raise ModelError(f"{path}: is a file, expected a .gguf file or the folder of a model")
    return Located(path.stem, str(path.parent), path.name)


def _folder(path: Path) -> Located:
    if not any(path.glob("*.safetensors")):
        files = sorted(entry.name for entry in path.iterdir() if entry.suffix in _PICKLES)
        held = f"only {', '.join(files)}" if files else "no weights"
        raise ModelError(f"{path.name}: holds {held}; expected *.safetensors, or name a .gguf file")
    return Located(path.resolve().name, str(path))


def _on_hub(name: str) -> Located:
    """The hub's model of that name; where the hub is out of reach, what was fetched of it before.

    Raises:
        ModelError: The hub has none, or cannot be asked and nothing was fetched.
    """
    from huggingface_hub import model_info, try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    nothing = f"{name}: no such folder, not the embedded model ({embedded.EMBEDDED})"
    try:
        model_info(name, timeout=PATIENCE)
    except GatedRepoError:
        pass  # Loading says what the hub asks for.
    except (RepositoryNotFoundError, HFValidationError):
        raise ModelError(f"{nothing}, and the hub has no such model that is public") from None
    except Exception as error:  # each version of the library lets another HTTP client's through
        fetched = try_to_load_from_cache(name, "config.json")
        if not isinstance(fetched, str):
            raise ModelError(
                f"{nothing}, never fetched from the hub, and the hub cannot be reached"
            ) from error
        folder = Path(fetched).parent
        return Located(name, str(folder), commit=folder.name)
    return Located(name, name, local=False)
