"""Where traces come from: files and folders named at the start, uploads, the built-in demos."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from mwviz.demos import DEMOS, STRESS, Demo
from mwviz.errors import TraceError
from mwviz.serve import Launch, offered

MOST_TRACES = 1_000
"""Traces offered of one folder."""


class Source(NamedTuple):
    """A trace that a session may open."""

    name: str
    """As shown; an upload's is the browser's."""
    path: Path
    origin: Literal["start", "demo", "upload"]

    def in_own_name(self, message: str) -> str:
        """A message with the name that is shown instead of the whole path."""
        return message.replace(str(self.path), self.name)


class Named(NamedTuple):
    """What the command line names."""

    traces: dict[str, Source]
    """By an id that tells the browser nothing."""
    cut: bool
    """Whether a folder holds more than are offered of it."""


class Version(NamedTuple):
    """A file or folder as it is now: the key of everything that was read from it."""

    path: str
    bytes: int
    """Of a folder, of all files in it."""
    changed: int
    """Time of the last change in nanoseconds since the epoch; of a folder, of the newest in it."""


_SHIPPED = {demo.name: Source(demo.title, demo.path, "demo") for demo in DEMOS}


def named(launch: Launch) -> Named:
    """The traces named on the command line: files, and the first ones of folders by name."""
    found: dict[str, Source] = {}
    cut = False
    for path in map(Path, launch.paths):
        # a file that is gone may return
        inside = sorted(offered(path)) if path.is_dir() else [path]
        cut = cut or len(inside) > MOST_TRACES
        for file in inside[:MOST_TRACES]:
            shown = path.name if file == path else str(file.relative_to(path))
            found[digest(str(file).encode())] = Source(shown, file, "start")
    return Named(found, cut)


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
    """The file as it is now, or the folder that is one trace.

    Raises:
        TraceError: It is gone, may not be looked at, or is neither: a pipe is never read, since who
            writes it may never end.
    """
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise TraceError(f"{path}: is gone, expected the trace that was there") from error
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}, expected a trace") from error
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise TraceError(f"{path}: is a pipe or a device, expected a file or a folder")
    if stat.S_ISREG(status.st_mode):
        return Version(str(path), status.st_size, status.st_mtime_ns)
    inside = list(_statuses(path))
    newest = max((file.st_mtime_ns for file in inside), default=status.st_mtime_ns)
    return Version(str(path), sum(file.st_size for file in inside), newest)


def _statuses(folder: Path) -> Iterator[os.stat_result]:
    """Of all files in a folder, but for those that vanish meanwhile."""
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                yield Path(place, name).lstat()
