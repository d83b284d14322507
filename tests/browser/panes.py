"""The panes of the workbench, as tests and benches point at them and work in all of them."""

from __future__ import annotations

from playwright.sync_api import Page

STAGES = (".mw-stage", ".mw-mask", ".mw-text", ".mw-drift")
"""Selectors of the panes that are drawn in."""
ELEMENTS = "bench => bench.querySelectorAll('*').length"
"""In the page: how many elements the workbench has."""


def spot(page: Page, stage: str, *, x: float = 0.6, y: float = 0.5) -> tuple[float, float]:
    """A point of a pane, brought into sight, in CSS pixels of the window.

    Args:
        page: shows the workbench.
        stage: one of `STAGES`.
        x: from its left edge, as a share of its width.
        y: from its upper edge, as a share of its height.
    """
    page.locator(stage).scroll_into_view_if_needed()
    box = page.locator(stage).bounding_box()
    assert box is not None
    return box["x"] + box["width"] * x, box["y"] + box["height"] * y


def fiddle(page: Page, *, pause: float = 0) -> None:
    """Hovers, zooms and pans in every pane that this rollout has, scrolls its text, presses keys.

    Args:
        page: shows the workbench.
        pause: milliseconds between the zoom of a pane and its pan.
    """
    for stage in STAGES:
        if not page.locator(stage).is_visible():
            continue
        at = spot(page, stage)
        page.mouse.move(*at)
        page.mouse.wheel(0, -240)
        if pause:
            page.wait_for_timeout(pause)
        if stage != ".mw-text":
            page.mouse.down()
            page.mouse.move(at[0] - 50, at[1] + 3, steps=3)
            page.mouse.up()
    page.locator(".mw-mask").focus()
    for key in ("j", "n", "l", "ArrowRight", "+", "1", "0"):
        page.keyboard.press(key)
