"""The pictures of the app are those that its script takes, and the tour shows and names them."""

from __future__ import annotations

import re

from PIL import Image

from bench.readme_tables import README
from bench.screen_list import MIDDLE, NARROW, SCREENS, WIDE

DOCS = README.parent / "docs"
FOLDER = DOCS / "screens"
TOUR = DOCS / "tour.md"
MAIN = ("debug", "worst", "open", "learn", "train", "triage", "stress", "hostile", "empty", "error")
"""Taken in every way: each page there is, and each state it may be in."""


def test_every_picture_that_the_script_takes_is_there_and_no_other() -> None:
    files = [screen.file for screen in SCREENS]
    assert len(set(files)) == len(files)
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(files)


def test_a_picture_is_as_large_as_the_window_it_was_taken_of() -> None:
    for screen in SCREENS:
        with Image.open(FOLDER / screen.file) as picture:
            assert picture.size == screen.size, screen.file


def test_every_picture_is_light_and_dark_and_every_page_wide_and_narrow() -> None:
    taken = {(screen.name, screen.scheme, screen.size) for screen in SCREENS}
    for name in {screen.name for screen in SCREENS}:
        assert {(name, "light", WIDE), (name, "dark", WIDE)} <= taken, name
    for name in MAIN:
        assert {(name, s, size) for s in ("light", "dark") for size in (MIDDLE, NARROW)} <= taken


def test_the_tour_names_every_picture_once_and_documents_show_none_that_is_missing() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \|", TOUR.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted({screen.name for screen in SCREENS})
    shown = {
        name
        for path in (README, *DOCS.glob("*.md"))
        for name in re.findall(r"screens/([\w-]+\.png)", path.read_text())
    }
    assert len(shown) >= 6
    assert shown <= {screen.file for screen in SCREENS}
