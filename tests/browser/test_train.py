"""The train lab as a user works in it, with a tiny model in the real worker process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from mwviz import serve
from tests.browser import fitting
from tests.browser.conftest import Open, at_rest
from tests.engine import tiny
from tests.saved_model import save_tiny_model
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser

SLOW = 180_000  # milliseconds; the worker imports torch first, on a busy machine slowly
HOSTILE = "<img src=x onerror=alert(1)> :red[x] $x^2$"
"""Id of the rollout: shown as it is, never obeyed."""
POINTS = "() => document.querySelectorAll('.js-plotly-plot .scatterlayer .point').length"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("lab")
    save_tiny_model(folder / "tiny")
    trace = folder / "run.jsonl"
    lines = [
        {
            "rollout": HOSTILE,
            "prompt_ids": list(prompt),
            "completion_ids": list(completion),
            "logprobs": [-1.0] * len(completion),
            "temperature": 1.0,
        }
        for prompt, completion in tiny.RUNNING_EXAMPLE
    ]
    trace.write_text("\n".join(map(json.dumps, lines)))
    port = free_port()
    launch = serve.Launch((str(trace),), (str(folder / "tiny"),), "cpu")
    command = app_command(serve.entry(), port, launch=launch)
    own = {"XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    with served(command, port, folder, **own) as running:
        yield running


def set_steps(page: Page, steps: int) -> None:
    field = page.get_by_label("Steps", exact=True)
    expect(field).to_have_count(1)
    field.fill(str(steps))
    page.keyboard.press("Enter")
    at_rest(page)


def choose(page: Page, *, steps: int) -> None:
    """The tiny model, the usual arms without the last one, and so many steps."""
    page.get_by_role("combobox", name="Model").click()
    page.get_by_role("option", name="tiny").click()
    at_rest(page)
    page.get_by_role("combobox", name="Arms").click()
    page.keyboard.press("Backspace")
    page.keyboard.press("Escape")
    at_rest(page)
    set_steps(page, steps)


def assert_fits(page: Page) -> None:
    """The charts of a run and its pickers are whole, and nothing lies on another."""
    page.locator(".legendtext", has_text=re.compile("^floor 1 - ")).wait_for()
    for width in (1440, 800):
        page.set_viewport_size({"width": width, "height": 900})
        at_rest(page)
        assert fitting.misfits(page, fitting.CHARTS) == [], width
        assert fitting.misfits(page, fitting.CHOICES) == [], width


def test_a_comparison_is_started_watched_cancelled_resumed_and_read(
    open_page: Open, address: str
) -> None:
    page, _ = open_page(f"{address}/train")
    page.set_default_timeout(SLOW)
    page.get_by_text("No run yet.").wait_for()
    choose(page, steps=600)
    page.get_by_role("button", name="Estimate time and memory").click()
    page.get_by_text("free").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("steps of all arms").wait_for()
    page.wait_for_function(f"({POINTS})() > 3")
    before = page.evaluate(POINTS)
    page.wait_for_function(f"({POINTS})() > {before}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("The run was cancelled; what it has is kept.").wait_for()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    page.get_by_role("button", name="Resume").wait_for()
    first = page.url
    assert re.search(r"/train\?run=[\w-]+$", first)

    set_steps(page, 6)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("[data-testid=stCode]")).to_contain_text("--steps 6", timeout=SLOW)
    page.get_by_role("heading", name="Before and after").wait_for()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0, timeout=SLOW)
    for arm in ("rightmost", "packed_mask"):
        page.locator(".legendtext", has_text=re.compile(f"^{arm}$")).first.wait_for()
    legends = set(page.locator(".legendtext").all_text_contents())
    assert "sdcc" not in legends
    page.get_by_text("This run: done.").wait_for()
    command = page.locator("[data-testid=stCode]").inner_text()
    assert "--steps 6" in command
    assert "--method rightmost,replay,packed_mask --" in command
    page.close()

    again, _ = open_page(f"{address}/train")
    again.get_by_role("heading", name="Before and after").wait_for(timeout=SLOW)
    assert "--steps 6" in again.locator("[data-testid=stCode]").inner_text()
    assert again.locator("img[src=x]").count() == 0
    again.goto(first)
    expect(again.locator("[data-testid=stCode]")).to_contain_text("--steps 600", timeout=SLOW)
    again.get_by_role("button", name="Resume").wait_for(timeout=SLOW)
    assert again.url == first


def test_two_checkpoints_of_a_run_are_compared_in_debug(open_page: Open, address: str) -> None:
    """Follows the run of the test above, or makes one."""
    page, _ = open_page(f"{address}/train")
    page.set_default_timeout(SLOW)
    choose(page, steps=4)
    page.get_by_label("Learning rate", exact=True).fill("1e-2")
    page.keyboard.press("Enter")
    at_rest(page)
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("[data-testid=stCode]", has_text="--steps 4").first.wait_for()
    page.get_by_text("This run: done.").wait_for()
    assert_fits(page)
    page.get_by_role("button", name="Compare in Debug").click()
    page.get_by_text("First divergence: ").wait_for()
    said = page.get_by_text(re.compile("^log p of B ")).first.inner_text()
    assert re.search(r"B \(packed_mask, [\w-]+ · replay\)", said)
    assert re.search(r"A \(packed_mask, [\w-]+ · rightmost\)", said)
    page.get_by_role("button", name="Go to it").click()
    page.get_by_role("heading", name="What the selected token was sampled from").wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_where_a_token_looks_is_asked_read_and_told(open_page: Open, address: str) -> None:
    page, _ = open_page(address)
    page.set_default_timeout(SLOW)
    page.get_by_role("button", name="Run on a model").click()
    page.get_by_role("combobox", name="Model").last.click()
    page.get_by_role("option", name=re.compile("tiny$")).click()
    at_rest(page)
    page.get_by_role("button", name="Run", exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_text(re.compile("^Mean .drift. on its")).wait_for()
    page.get_by_role("button", name="Show me the worst one").click()
    page.get_by_text(re.compile("sampled after [0-9]+ tokens?:")).wait_for()
    at_rest(page)
    expect(page.locator("[data-testid=stStatusWidget]")).to_have_count(0, timeout=SLOW)
    page.get_by_role("button", name="Where does it look?").click()
    page.get_by_role("button", name="Read its attention").click()
    told = page.get_by_text(re.compile("of its attention under the view falls on text"))
    told.wait_for()
    leaked = re.search(r"([\d.]+)% of its attention under the view", told.inner_text())
    missed = re.search(r"([\d.]+)% of that in its true context", told.inner_text())
    assert leaked is not None
    assert missed is not None
    assert float(leaked[1]) + float(missed[1]) > 0
    page.get_by_text("Attention is not causation").wait_for()
    page.locator("[data-testid=stPopoverBody] .js-plotly-plot").wait_for()
    expect(page.locator("[data-testid=stPopoverBody] [data-testid=stDataFrame]")).to_have_count(2)
    page.get_by_role("button", name="What causes this?").click(force=True)
    assert page.locator("img[src=x]").count() == 0
