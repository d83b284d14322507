"""What this machine has of what mwviz needs, and the remedy for whatever is missing."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import platformdirs

from mwviz import store
from mwviz.engine import embedded
from mwviz.extras import EXTRAS
from mwviz.wording import counted

PYTHON = (3, 11)
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
"""Browsers that the tests can drive."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    name: str
    state: str
    remedy: str
    """What to do; "" if nothing needs to be done."""


def examine() -> Iterator[Finding]:
    """Looks at Python, packages, devices, the embedded model, the cache and the test browser."""
    version = platform.python_version()
    old = sys.version_info < PYTHON
    yield Finding("Python", version, "install Python 3.11 or 3.12" if old else "")
    for package, extra in EXTRAS.items():
        found = _version(package)
        yield Finding(package, found or "missing", "" if found else f"pip install 'mwviz[{extra}]'")
    if _version("torch"):
        yield _device()
    folder = embedded.path()
    yield Finding(
        embedded.EMBEDDED,
        str(folder) if folder else "not installed",
        "" if folder else "mwviz doctor --install-model",
    )
    cache = Path(platformdirs.user_cache_dir("mwviz", appauthor=False))
    scores = store.usage()
    yield Finding(
        "cache",
        f"{cache}: {_size(cache):,.0f} MB, of which scores {scores.bytes / 1e6:,.1f} MB "
        f"in {counted(scores.files, 'file')}",
        "",
    )
    browser = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    yield Finding(
        "Chromium",
        browser or "missing",
        "" if browser else "only the browser tests need it: apt-get install chromium",
    )


def template_traps(name: str) -> Iterator[Finding]:
    """What a model's chat template does to the messages it is given.

    Raises:
        ModelError: there is no such model.
        SetupError: it is the embedded one and not installed.
    """
    from mwviz.engine.model import load_reader
    from mwviz.templates import has_template, probe

    tokenizer = load_reader(name).tokenizer
    if not has_template(tokenizer):
        yield Finding("chat template", f"none that can be rendered comes with {name}", "")
        return
    traps = probe(tokenizer)
    stable = "prefix" not in {trap.name for trap in traps}
    yield Finding(
        "chat template",
        f"{'' if stable else 'not '}prefix-stable, {counted(len(traps), 'trap')}",
        "",
    )
    for trap in traps:
        yield Finding(f"  {trap.name}", trap.what, "")


def _device() -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding("device", f"cuda: {torch.cuda.get_device_name()}", "")
    if torch.backends.mps.is_available():
        return Finding("device", "mps", "")
    return Finding("device", f"cpu, {counted(torch.get_num_threads(), 'thread')}", "")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _size(folder: Path) -> float:
    """Megabytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
