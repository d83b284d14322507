"""Secrets in recorded text, replaced before anything is written.

Only what has the shape of a known credential is found. Token ids would spell a secret out, so a
call in which one was found loses its ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mwviz.errors import SetupError
from mwviz.formats.fields import Json, Object

MASK = "[masked]"
SHAPES = (
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}",  # keys of model providers and of payment services
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",  # GitLab
    r"\bhf_[A-Za-z0-9]{20,}",  # Hugging Face
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",  # AWS access key
    r"\bAIza[A-Za-z0-9_-]{30,}",  # Google
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",  # JSON Web Token
    r"(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{16,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
)


class Masked(NamedTuple):
    """A body without the secrets that were found."""

    body: Object
    found: int
    """How many."""


class Secrets:
    """What is masked."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Known shapes, and regular expressions of the user's.

        Raises:
            SetupError: A pattern is no regular expression, or matches the empty text.
        """
        for pattern in patterns:
            try:
                empty = re.compile(pattern).match("") is not None
            except re.error as error:
                raise SetupError(f"pattern {pattern!r} is no regular expression: {error}") from None
            if empty:
                raise SetupError(f"pattern {pattern!r} matches the empty text, expected a secret")
        self._shape = re.compile("|".join(f"(?:{shape})" for shape in (*SHAPES, *patterns)))

    def mask(self, body: Object) -> Masked:
        """The body with every secret in its texts and names replaced."""
        found = 0

        def clean(value: Json) -> Json:
            nonlocal found
            if isinstance(value, str):
                masked, count = self._shape.subn(MASK, value)
                found += count
                return masked
            if isinstance(value, list):
                return [clean(item) for item in value]
            if isinstance(value, dict):
                return {str(clean(key)): clean(item) for key, item in value.items()}
            return value

        cleaned = clean(body)
        assert isinstance(cleaned, dict)
        return Masked(cleaned, found)
