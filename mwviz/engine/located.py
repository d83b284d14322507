"""Where a model's files are, from its name: a folder, a GGUF file, the embedded model or the hub.

Reads no weights and loads no torch; the hub is asked once, for a name that is nothing here.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from mwviz.engine import embedded
from mwviz.errors import ModelError, SetupError, first_line, refused

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


def locate(name: str, *, weights: bool = True) -> Located:
    """Where a model's files are.

    Args:
        name: of the embedded model, a local folder, a GGUF file or a hub id.
        weights: Whether what was fetched of the hub before must hold them; a tokenizer does not.

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
    with readable(name):
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
    return _on_hub(name, weights=weights)


def readable(name: str) -> AbstractContextManager[None]:
    """Says of a model's files that they cannot be looked at, and why: as a ModelError."""
    return refused(ModelError, name, "a model that can be read")


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


def _on_hub(name: str, *, weights: bool) -> Located:
    """The hub's model of that name; where the hub cannot be asked, what was fetched of it before.

    Raises:
        ModelError: The hub has none, or cannot be asked and too little was fetched.
    """
    from huggingface_hub import model_info
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
    )

    # Its own error refines that of its HTTP client, which each version takes from another library.
    of_client = [kind for kind in HfHubHTTPError.__bases__ if issubclass(kind, Exception)]
    unasked: tuple[type[Exception], ...] = (OSError, json.JSONDecodeError, *of_client)
    nothing = f"{name}: no such folder, not the embedded model ({embedded.EMBEDDED})"
    try:
        model_info(name, timeout=PATIENCE)
    except GatedRepoError:
        pass  # Loading says what the hub asks for.
    except (RepositoryNotFoundError, HFValidationError):
        raise ModelError(f"{nothing}, and the hub has no such model that is public") from None
    except unasked as error:
        fetched = _fetched(name)
        if fetched is None or (weights and not any(fetched.glob("*.safetensors"))):
            held = "never fetched" if fetched is None else "fetched without weights"
            raise ModelError(
                f"{nothing}, {held} from the hub, and the hub cannot be asked: {first_line(error)}"
            ) from error
        return Located(name, str(fetched), commit=fetched.name)
    return Located(name, name, local=False)


def _fetched(name: str) -> Path | None:
    """The folder of what was fetched of the hub's model; None if nothing was."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(name, "config.json")
    return Path(config).parent if isinstance(config, str) else None
