"""Where traces come from: files and folders named at the start, uploads, the built-in demos."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal, NamedTuple

from mwviz.demos import DEMOS, STRESS, Demo
from mwviz.serve import Launch, offered

MOST_TRACES = 1_000
"""Traces offered of one folder."""


class Source(NamedTuple):
    """A trace that a session may open."""

    name: str
    """As shown; an upload's is the browser's."""
    path: Path
    origin: Literal["start", "demo", "upload"]


class Version(NamedTuple):
    """A file or folder as it is now: the key of everything that was read from it."""

    path: str
    bytes: int
    """Of a folder, of all files in it."""
    changed: int
    """Time of the last change in nanoseconds since the epoch; of a folder, of the newest in it."""


_SHIPPED = {demo.name: Source(demo.title, demo.path, "demo") for demo in DEMOS}


def named(launch: Launch) -> dict[str, Source]:
    """The traces named on the command line, by an id that tells the browser nothing."""
    found: dict[str, Source] = {}
    for path in map(Path, launch.paths):
        inside = sorted(offered(path))
        for file in [path] if path.is_file() else inside[:MOST_TRACES]:
            shown = path.name if file == path else str(file.relative_to(path))
            found[digest(str(file).encode())] = Source(shown, file, "start")
    return found


def built_in(folder: Path) -> dict[str, Source]:
    """The demos by name; the one that a program makes once it lies in `folder`."""
    found, made = dict(_SHIPPED), made_path(folder)
    if made.exists():
        found[STRESS.name] = Source(STRESS.title, made, "demo")
    return found


def made_path(folder: Path) -> Path:
    """Where the demo that a program makes is put."""
    return folder / f"{STRESS.name}.jsonl"


def demo_of(trace_id: str) -> Demo | None:
    """The demo of an id; None for every other trace."""
    return next((demo for demo in DEMOS if demo.name == trace_id), None)


def digest(content: bytes) -> str:
    """A short id of some bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def version_of(path: Path) -> Version:
    """The file as it is now, or the folder that is one trace."""
    status = path.stat()
    if not path.is_dir():
        return Version(str(path), status.st_size, status.st_mtime_ns)
    inside = [Path(place, name).lstat() for place, _, names in os.walk(path) for name in names]
    newest = max((file.st_mtime_ns for file in inside), default=status.st_mtime_ns)
    return Version(str(path), sum(file.st_size for file in inside), newest)
