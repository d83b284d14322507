"""Keeps scores on disk, so that a rollout is scored once for each model, method and kernel.

One .npz a key in the user's cache, without pickles. A file that cannot be read counts as absent.
`token_store` keeps the tokens that they are of beside them, where the trace does not hold these.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt
import platformdirs

from mwviz.engine.scores import Floor, Scores
from mwviz.errors import SetupError

VERSION = 1
"""Raised when the meaning of a stored number changes; other versions count as absent."""

_ARRAYS = {
    "logprob": np.float32,
    "entropy": np.float32,
    "rank": np.int32,
    "hidden": np.float32,
    "tempered": np.float32,
}
DAMAGE = (  # found by flipping every byte
    OSError,
    ValueError,
    LookupError,
    TypeError,
    EOFError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)
"""All that the zip, npy and JSON readers raise on broken files."""


class Key(NamedTuple):
    """What scores depend on."""

    trace: str
    """Digest of the rollout's tokens."""
    model: str
    """Name and revision, as `Scores.model` has them."""
    method: str
    dtype: str
    kernel: str
    device: str


class Found(NamedTuple):
    """What the cache holds for a key."""

    scores: Scores | None
    reason: str
    """Why there are none; "" if there are."""


class Usage(NamedTuple):
    """How much the cache holds."""

    files: int
    bytes: int


def save(key: Key, scores: Scores) -> Path:
    """Writes scores under a key, replacing older ones; the file appears whole or not at all.

    Raises:
        SetupError: The cache folder cannot be written.
    """
    path = path_of(key)
    with replaced(path) as stream:
        write(stream, key, scores)
    return path


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content becomes the file, whole or not at all.

    Raises:
        SetupError: The folder cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as stream:
            temporary = Path(stream.name)
            yield stream
        temporary.replace(path)
    except OSError as error:
        raise SetupError(f"{path.parent}: scores cannot be kept: {error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def load(key: Key) -> Found:
    """The scores kept under a key, or why there are none."""
    path = path_of(key)
    return read(path, key) if path.is_file() else Found(None, "not scored yet")


def held(trace: str) -> tuple[Key, ...]:
    """The keys of all that is kept of one rollout's tokens, the oldest file first.

    Args:
        trace: `Analysis.digest`.
    """
    found = []
    for path in folder().glob("*.npz"):
        try:
            changed = path.stat().st_mtime_ns
            with np.load(path, allow_pickle=False) as archive:
                key = Key(**json.loads(archive["meta"].tobytes())["key"])
        except DAMAGE:  # tokens have another key; a file may go meanwhile
            continue
        if key.trace == trace:
            found.append((changed, key))
    return tuple(key for _, key in sorted(found, key=lambda each: each[0]))


def write(stream: IO[bytes], key: Key, scores: Scores) -> None:
    """Writes scores as one compressed .npz that `read` understands."""
    arrays = {name: getattr(scores, name) for name in _ARRAYS}
    held = {name: array for name, array in arrays.items() if array is not None}
    meta = {
        "version": VERSION,
        "key": key._asdict(),
        "arrays": list(held),
        "scores": _plain(scores),
    }
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez_compressed(stream, meta=text, **held)


def read(path: Path, key: Key) -> Found:
    """The scores in a file that `write` made for the same key, or why there are none."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            meta = json.loads(archive["meta"].tobytes())
            held = {name: archive[name] for name in meta["arrays"]}
        if meta["version"] != VERSION or meta["key"] != key._asdict():
            return Found(None, f"{path.name}: written by another version of mwviz")
        return Found(_scores(meta["scores"], held), "")
    except DAMAGE as error:
        return Found(None, f"{path.name}: cannot be read ({type(error).__name__}: {error})")


def usage() -> Usage:
    """Files and bytes in the cache."""
    sizes = [path.stat().st_size for path in folder().glob("*.npz")]
    return Usage(len(sizes), sum(sizes))


def clear() -> Usage:
    """Deletes all that is kept; gives what was deleted."""
    held = usage()
    for path in folder().glob("*.npz"):
        path.unlink(missing_ok=True)
    return held


def folder() -> Path:
    """Where everything is kept, in files that end in .npz."""
    return Path(platformdirs.user_cache_dir("mwviz", appauthor=False)) / "scores"


def path_of(key: tuple[object, ...], suffix: str = ".npz") -> Path:
    """The file in which what is known by a key is kept."""
    digest = hashlib.blake2b(json.dumps(key).encode(), digest_size=16).hexdigest()
    return folder() / f"{digest}{suffix}"


def _plain(scores: Scores) -> dict[str, object]:
    """Everything but the arrays, ready for JSON."""
    names = [field.name for field in fields(Scores) if field.name not in _ARRAYS]
    plain = {name: getattr(scores, name) for name in names}
    floor = scores.floor
    return plain | {"floor": [floor.p50, floor.p999, floor.targets]}


def _scores(plain: dict[str, object], held: dict[str, npt.NDArray[np.generic]]) -> Scores:
    """Scores from the two halves of a file; a wrong shape or type raises ValueError."""
    count = len(held["logprob"])
    for name, array in held.items():
        if array.dtype != _ARRAYS[name] or len(array) != count:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, expected {count} entries")
    floor = plain.pop("floor")
    notes = plain.pop("notes")
    if not isinstance(floor, list) or not isinstance(notes, list):
        raise ValueError("floor and notes must be lists")
    arrays = {"hidden": None, "tempered": None, **held}
    whole = {**plain, **arrays, "floor": Floor(*floor), "notes": tuple(notes)}
    return Scores(**whole)  # type: ignore[arg-type]  # JSON is untyped, arrays are checked above
