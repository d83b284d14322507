"""Colours of classes, methods and drift, for light and dark; told apart by every kind of eye."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CLASS_SENTENCES = {
    "agree": "The token sees this text, as it did when it was sampled.",
    "future": "Time travel: the view shows text that was written later.",
    "erased": "Time travel: a later eviction is applied too early; the token had seen this text.",
    "stale": "The view still shows text that had already left the context.",
    "foreign": "The view shows text of another agent or of a parallel sample.",
    "lost": "The token had seen this text; the view does not show it.",
    "shifted": "The token sees this text, but at another distance.",
    "self": "The token itself.",
    "none": "Neither the token's true context nor the view shows this text.",
}
METHOD_COLOURS = {
    "rightmost": "#D55E00",
    "replay": "#F0C300",
    "last_call": "#7A3E9D",
    "call_by_call": "#6B7280",
    "logit_tree": "#1A1A1A",
    "packed_mask": "#0072B2",
}


@dataclass(frozen=True, slots=True)
class Theme:
    """One set of colours."""

    name: str
    background: str
    text: str
    rule: str
    classes: dict[str, str]
    """By pair class and by the other names of a window's cells."""


LIGHT = Theme(
    "light",
    "#FFFFFF",
    "#1A1A1A",
    "#8A8F98",
    {
        "agree": "#C8C8C8",
        "future": "#C1440E",
        "erased": "#E8A88B",
        "stale": "#F5B800",
        "foreign": "#7A3E9D",
        "lost": "#1F6FB4",
        "none": "#FFFFFF",
        "shifted": "#A9B4C2",
        "self": "#1A1A1A",
    },
)
DARK = Theme(
    "dark",
    "#0E1117",
    "#E6E8EB",
    "#5B626C",
    {
        "agree": "#4A4F57",
        "future": "#FF7A3D",
        "erased": "#8F4A2B",
        "stale": "#FFD24A",
        "foreign": "#B388D9",
        "lost": "#5AA9F0",
        "none": "#0E1117",
        "shifted": "#5D6B7E",
        "self": "#E6E8EB",
    },
)
INK = "#1A1A1A"
"""A method's colour that is the text's on a dark page, where it would not be seen."""
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def method_colour(method: str, theme: Theme, colours: Mapping[str, str] = METHOD_COLOURS) -> str:
    """The colour in which a method is drawn; the text's for one without its own."""
    colour = colours.get(method, INK)
    return theme.text if colour == INK else colour
