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
    """Says of a package that is not there how to get it.

    Raises:
        SetupError: a package of an extra is imported and not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise SetupError(f"{package} is missing: pip install 'mwviz[{EXTRAS[package]}]'") from error
