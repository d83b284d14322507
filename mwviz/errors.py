"""The few kinds of errors a user can meet; each also is the standard error it refines.

And what they quote of a library's own, or of the system's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MwvizError(Exception):
    """Base of every error that mwviz raises on purpose; its text says where, what and what next."""


class TraceError(MwvizError, ValueError):
    """A trace file cannot be read: names the file, the line and what was expected there."""


class ViewError(MwvizError, ValueError):
    """A training layout cannot express this rollout; names the method that works instead."""


class ModelError(MwvizError, RuntimeError):
    """A model cannot be loaded or cannot score this layout; says which and what to do."""


class SetupError(MwvizError, RuntimeError):
    """Something that mwviz needs is not installed or not reachable; says how to get it."""


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line; its kind if it says nothing."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def reason(error: Exception) -> str:
    """Why the system refuses a file, without error number and name; else its first line."""
    return (isinstance(error, OSError) and error.strerror) or first_line(error)


@contextmanager
def refused(kind: type[MwvizError], name: str, expected: str) -> Iterator[None]:
    """Says which file the system refuses, why and what was expected.

    Args:
        kind: of the error that says so.
        name: of what is looked at or read there, if the system names no file.
        expected: in words.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or name
        raise kind(f"{where}: {reason(error)}, expected {expected}") from error
