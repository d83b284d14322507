from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from mwviz import serve
from tests.browser.conftest import Open, at_rest
from tests.browser.trees import demo_calls
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser

PICTURE = "canvas => canvas.toDataURL()"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app as `mwviz app run.jsonl` starts it."""
    folder = tmp_path_factory.mktemp("app")
    trace = folder / "run.jsonl"
    lines = [
        json.dumps({"prompt_ids": call.prompt, "completion_ids": call.completion})
        for call in demo_calls(40)
    ]
    trace.write_text("\n".join(lines))
    port = free_port()
    command = app_command(serve.entry(), port, launch=serve.Launch((str(trace),)))
    with served(command, port, folder) as running:
        yield running


def test_selection_and_view_outlive_a_change_of_page(open_page: Open, address: str) -> None:
    page, wire = open_page(address)
    stage = page.locator(".mw-stage")
    stage.wait_for()
    page.get_by_text("Click a rectangle").wait_for()
    at_rest(page)
    stage.focus()
    for key in ("n", "ArrowDown", "+", "+", "Enter"):
        page.keyboard.press(key)
    told = page.get_by_text("selected in call 5")
    told.wait_for()
    page.keyboard.press("Escape")
    at_rest(page)
    before = page.locator(".mw-stage canvas").evaluate(PICTURE)
    page.get_by_role("link", name="Open").click()
    page.get_by_role("heading", name="What was read").wait_for()
    expect(stage).to_have_count(0)
    wire.forget()
    page.get_by_role("link", name="Debug").click()
    stage.wait_for()
    told.wait_for()
    page.mouse.move(5, 400)
    at_rest(page)
    assert stage.count() == 1
    assert page.locator(".mw-stage canvas").evaluate(PICTURE) == before


def test_every_page_opens_by_its_address(open_page: Open, address: str) -> None:
    page, _ = open_page(f"{address}/open")
    page.get_by_text("run.jsonl").first.wait_for()
    page, _ = open_page(f"{address}/debug")
    page.locator(".mw-stage canvas").wait_for()
