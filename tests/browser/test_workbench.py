from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import FloatRect, Page

from tests.browser.conftest import Open, at_rest
from tests.browser.trees import demo_calls
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SHIPPED = ["pyproject.toml", "README.md", "LICENSE", "mwviz", "app"]

COLOURS = """canvas => {
  const {width, height} = canvas;
  const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""
PICTURE = "canvas => canvas.toDataURL()"
CORNER = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data].slice(0, 3)"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `pip install mwviz` would take, built from a copy of the sources."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SHIPPED:
        path = ROOT / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, source / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(out), str(source)], check=True)
    [built] = out.glob("mwviz-*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Python of an environment whose mwviz is the wheel; other packages are lent by a path file.

    A folder named in a path file lends its packages but not its own path files, so the editable
    mwviz of the lending environment stays out.
    """
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = str(home / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True)
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.fixture(scope="module")
def address(installed: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("demo")
    for name in ("demo_page.py", "trees.py"):
        target = folder / "tests" / "browser" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / "browser" / name, target)
    _assert_ours_is_from_the_wheel(installed, folder)
    port = free_port()
    page = folder / "tests" / "browser" / "demo_page.py"
    command = app_command(page, port, python=installed)
    with served(command, port, folder, PYTHONPATH=str(folder)) as running:
        yield running


def _assert_ours_is_from_the_wheel(python: str, folder: Path) -> None:
    script = "import mwviz, mwviz_app; print(mwviz.__file__, mwviz_app.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    found = subprocess.check_output([python, "-c", script], cwd=folder, env=environment, text=True)
    assert str(ROOT) not in found


def settled(page: Page) -> FloatRect:
    """The timeline's box once it is drawn and the page is quiet."""
    stage = page.locator(".mw-stage")
    stage.wait_for()
    page.get_by_text("nothing selected").wait_for()
    at_rest(page)
    box = stage.bounding_box()
    assert box is not None
    return box


def test_the_wheel_holds_all_that_the_app_serves(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    front_end = {f"mwviz/frontend/{path.name}" for path in (ROOT / "mwviz/frontend").iterdir()}
    assert {"mwviz/frontend/index.js", "mwviz/frontend/payload.js"} <= front_end
    assert front_end <= names
    kept = {"mwviz/pyproject.toml", "mwviz/py.typed"}
    for package, folder in (("mwviz", "mwviz"), ("mwviz_app", "app")):
        kept |= {
            f"{package}/{path.relative_to(ROOT / folder)}" for path in (ROOT / folder).rglob("*.py")
        }
    for pattern in ("formats/*.json", "demo/**/*"):
        found = (ROOT / "mwviz").glob(pattern)
        kept |= {str(path.relative_to(ROOT)) for path in found if path.is_file()}
    assert kept <= names
    assert not {name for name in names if name.startswith(("app/", "tests/"))}


def test_the_installed_component_draws_the_timeline(open_page: Open, address: str) -> None:
    page, _ = open_page(address)
    settled(page)
    assert page.locator(".mw-stage canvas").evaluate(COLOURS) > 10
    label = page.locator(".mw-stage").get_attribute("aria-label")
    assert label is not None
    calls = demo_calls(60)
    contexts = [[*call.prompt, *call.completion] for call in calls]
    cuts = sum(
        after.prompt[: len(before)] != before
        for before, after in zip(contexts, calls[1:], strict=False)
    )
    assert label.startswith(f"Timeline of 60 calls with {cuts} changes of context")
    assert f"the longest context has {max(map(len, contexts)):,} tokens" in label


def test_hover_zoom_drag_and_keys_never_call_the_server(open_page: Open, address: str) -> None:
    page, wire = open_page(address)
    box = settled(page)
    canvas = page.locator(".mw-stage canvas")
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.6
    pictures = [canvas.evaluate(PICTURE)]

    def changed() -> None:
        at_rest(page)
        pictures.append(canvas.evaluate(PICTURE))
        assert pictures[-1] != pictures[-2]

    wire.forget()
    page.mouse.move(*middle)
    changed()
    assert page.locator(".mw-tip").is_visible()
    page.mouse.wheel(0, -400)
    changed()
    page.mouse.down()
    page.mouse.move(middle[0] - 200, middle[1] + 10, steps=5)
    page.mouse.up()
    changed()
    page.mouse.dblclick(middle[0], box["y"] + 5)
    changed()
    page.locator(".mw-stage").focus()
    page.keyboard.press("n")
    changed()
    assert (wire.sent, wire.received) == ([], [])
    assert page.get_by_text("nothing selected").is_visible()


def test_a_click_sends_one_small_message_and_keeps_the_drawing(
    open_page: Open, address: str
) -> None:
    page, wire = open_page(address)
    box = settled(page)
    page.locator(".mw-stage").evaluate("stage => { stage.dataset.probe = 'first' }")
    spot = box["x"] + 52 + 22.5 * (box["width"] - 66) / 60, box["y"] + box["height"] - 40
    wire.forget()
    page.mouse.click(*spot)
    page.get_by_text("call 22, segment 0").wait_for()
    at_rest(page)
    assert len(wire.sent) == 1
    assert wire.sent[0] <= 500
    assert sum(wire.received) <= 3000
    assert page.locator(".mw-stage").get_attribute("data-probe") == "first"
    wire.forget()
    page.mouse.click(*spot)
    at_rest(page)
    assert wire.sent == []


def test_enter_selects_what_the_keys_point_at(open_page: Open, address: str) -> None:
    page, _ = open_page(address)
    settled(page)
    page.locator(".mw-stage").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.get_by_text("call 1, segment 1").wait_for()


def test_theme_and_size_changes_repaint_the_same_drawing(open_page: Open, address: str) -> None:
    page, _ = open_page(address)
    box = settled(page)
    canvas = page.locator(".mw-stage canvas")
    page.locator(".mw-stage").evaluate("stage => { stage.dataset.probe = 'first' }")
    assert canvas.evaluate(CORNER) == [255, 255, 255]
    page.emulate_media(color_scheme="dark")
    at_rest(page)
    assert max(canvas.evaluate(CORNER)) < 60
    page.set_viewport_size({"width": 1000, "height": 900})
    at_rest(page)
    width = canvas.evaluate("canvas => canvas.width")
    assert width == canvas.evaluate("canvas => Math.round(canvas.getBoundingClientRect().width)")
    assert width < box["width"] - 300
    assert page.locator(".mw-stage").get_attribute("data-probe") == "first"


def test_trace_text_is_shown_and_never_obeyed(open_page: Open, address: str) -> None:
    page, _ = open_page(address)
    box = settled(page)
    page.mouse.move(box["x"] + 300, box["y"] + box["height"] - 40)
    shown = page.locator(".mw-tip code").inner_text()
    assert "<b>" in shown
    assert "⟨202E⟩" in shown
    assert "\u202e" not in shown
    assert page.locator(".mw code b").count() == 0


def test_a_rerun_with_nothing_changed_sends_no_payload_and_keeps_the_drawing(
    open_page: Open, address: str
) -> None:
    page, wire = open_page(address)
    settled(page)
    page.locator(".mw-stage").evaluate("stage => { stage.dataset.probe = 'first' }")
    wire.forget()
    page.get_by_role("button", name="run again").click()
    at_rest(page)
    assert len(wire.sent) == 1
    assert 0 < sum(wire.received) <= 3000
    assert page.locator(".mw-stage").get_attribute("data-probe") == "first"
