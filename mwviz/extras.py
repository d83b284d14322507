"""Packages that mwviz can do without, and which of its extras brings each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mwviz.errors import SetupError

EXTRAS = {
    **dict.fromkeys(
        ("torch", "transformers", "accelerate", "safetensors", "gguf", "peft"), "model"
    ),
    "streamlit": "app",
    **dict.fromkeys(("zstandard", "pyarrow", "jsonschema"), "formats"),
    **dict.fromkeys(("starlette", "httpx", "uvicorn"), "record"),
}
"""Extra by the package's name, as it is imported."""


@contextmanager
def needed() -> Iterator[None]:
    """Says of a package that is not there how to get it; one that lacks a part is not missing.

    Raises:
        SetupError: a package of an extra is imported and not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        how = f"pip install 'mwviz[{EXTRAS[error.name]}]'"
        raise SetupError(f"{error.name} is missing: {how}") from error
