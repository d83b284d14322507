"""The few kinds of errors a user can meet; each also is the standard error it refines.

And what they quote of a library's own.
"""


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
