from __future__ import annotations

import re
import shlex

import pytest

from bench.readme_tables import README, filled
from mwviz.cli import _parser, main
from mwviz.engine import embedded

ROOT = README.parent
NEEDS_MODEL = pytest.mark.skipif(embedded.path() is None, reason="needs the embedded model")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def whole(text: str) -> list[str]:
    """Lines, those that go on behind a backslash in one."""
    return [line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines()]


def commands(name: str) -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in whole(block)]
    return [shlex.split(line)[1:] for line in lines if line.startswith(f"mwviz {name} ")]


def test_readme_tables_are_those_of_the_registries() -> None:
    text = README.read_text()
    assert filled(text) == text, "run python bench/readme_tables.py"


def test_every_command_is_in_the_readme() -> None:
    listed = re.findall(r"^    (\w+) ", _parser().format_help(), re.MULTILINE)
    text = README.read_text() + "".join(p.read_text() for p in (ROOT / "docs").glob("*.md"))
    assert [name for name in listed if f"mwviz {name}" not in text] == []


def test_every_file_the_readme_names_is_there() -> None:
    text = README.read_text()
    named = re.findall(r"[(`]((?:docs|mwviz)/[\w/.-]+)[)`]", text)
    named = [name for name in named if name != "mwviz/1"]
    assert len(named) > 3
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/training.md"])
def test_every_file_that_a_page_trains_on_is_there_or_recorded_before(page: str) -> None:
    made: set[str] = set()
    trained = []
    for line in whole((ROOT / page).read_text()):
        if line.startswith("python -m examples.search_world -o "):
            made.add(shlex.split(line)[4])
        if line.startswith("mwviz train ") and "--resume" not in line:
            options = _parser().parse_args(shlex.split(line)[1:])
            trained += [*options.files, *options.held_out]
    assert trained
    assert [name for name in trained if name not in made and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", ["inspect", "check"])
def test_readme_commands_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = commands(name)
    assert found
    for arguments in found:
        assert main(arguments) == 0, arguments


@NEEDS_MODEL
@pytest.mark.embedded
def test_readme_python_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "summary_tail" in printed
    assert "future" in printed
    assert "drift" in printed


def test_every_test_that_the_docs_name_is_there() -> None:
    named = {
        found
        for page in (README, *(ROOT / "docs").glob("*.md"))
        for found in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text())
    }
    assert len(named) > 10
    for path, name in sorted(named):
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"
