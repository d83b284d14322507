"""Trace text made safe to show: every control and direction mark becomes a visible symbol."""

from __future__ import annotations

import unicodedata

_SYMBOLS = {0x7F: "\u2421", **{code: chr(0x2400 + code) for code in range(0x20)}}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_JOINERS = {"\u200d", "\ufe0f"}
"""Invisible characters that emoji need and that move nothing."""


def visible(text: str, *, keep: str = "\n") -> str:
    """The text with C0, C1, bidi and other invisible characters replaced by symbols.

    Args:
        text: as the trace has it.
        keep: control characters that the place of display handles itself.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep else _visible(char) for char in text)


def _visible(char: str) -> str:
    code = ord(char)
    if code in _SYMBOLS:
        return _SYMBOLS[code]
    if char not in _JOINERS and unicodedata.category(char) in _HIDDEN:
        return f"\u27e8U+{code:04X}\u27e9"
    return char


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of the text, saying how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({limit:,} of {len(text):,} characters)"
