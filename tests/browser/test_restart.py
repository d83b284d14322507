"""A page that is open while its server starts anew goes on where it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from mwviz import serve
from tests.browser.conftest import Open, at_rest
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser


def test_the_debug_page_comes_back_whole_with_its_drawing(open_page: Open, tmp_path: Path) -> None:
    port = free_port()
    command = app_command(serve.entry(), port, launch=serve.Launch())
    with served(command, port, tmp_path) as address:
        page, _ = open_page(address)
        tab = page.get_by_role("tab", name="Where the context changed")
        link = page.get_by_role("button", name="Copy link")
        tab.wait_for()
        link.wait_for()
        at_rest(page)  # what a browser could not load of the page itself it never asks for again
        for part in ("[role=tab]", ".mw-stage"):
            page.locator(part).first.evaluate("part => { part.dataset.probe = 'before' }")
    with served(command, port, tmp_path):
        link.click()  # a page at rest asks a new server for nothing by itself
        expect(page.locator("[role=tab][data-probe]")).to_have_count(0)
        tab.wait_for()
        assert page.locator(".mw-stage").first.get_attribute("data-probe") == "before"
