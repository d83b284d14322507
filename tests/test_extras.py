"""A plain install says of every command that needs more how to get it."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mwviz.errors import SetupError
from mwviz.extras import EXTRAS, needed
from mwviz.formats.unpack import unpacked
from mwviz.training.plan import Plan
from mwviz.training.results import Results

ROOT = Path(__file__).parents[1]
T3 = str(ROOT / "tests" / "data" / "cases" / "vector-3-summary-tail" / "calls.jsonl")
NEEDING = (
    ("score", T3, "--method", "all"),
    ("check", T3, "--max-drift", "1"),
    ("inspect", T3, "--model", "M"),
    ("why", T3, "--call", "1", "--token", "0"),
    ("undo", T3),
    ("train", T3, "--method", "rightmost"),
    ("bench",),
    ("doctor", "--model", "M"),
)
"""Commands that run a model or ask what it reads."""


def test_every_package_of_an_extra_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {
        re.split(r"[<>=\[]", package)[0]: extra
        for extra in ("model", "app", "formats", "record")
        for package in project["optional-dependencies"][extra]
    }
    assert listed == EXTRAS


def test_commands_without_their_package_end_with_2_and_how_to_get_it() -> None:
    script = (
        "import sys\nsys.modules['torch'] = None\nfrom mwviz.cli import main\n"
        f"print([main(arguments) for arguments in {NEEDING}])\n"
        f"print(main({['inspect', T3, '--json']}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    said = "mwviz: torch is missing: pip install 'mwviz[model]'"
    assert done.stderr.splitlines() == [said] * len(NEEDING)
    lines = done.stdout.splitlines()
    assert lines[0] == str([2] * len(NEEDING))
    assert lines[-1] == "0"


@pytest.mark.parametrize(
    ("package", "extra", "suffix"),
    [("pyarrow", "formats", "parquet"), ("safetensors", "model", "safetensors")],
)
def test_a_batch_that_nothing_here_reads_is_told(
    package: str, extra: str, suffix: str, tmp_path: Path
) -> None:
    batch = tmp_path / f"own.{suffix}"
    batch.touch()
    script = (
        f"import sys\nsys.modules[{package!r}] = None\nfrom mwviz.cli import main\n"
        f"print(main(['check', {T3!r}, '--view', {str(batch)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2\n"
    said = f"mwviz: {package} is missing: pip install 'mwviz[{extra}]'"
    assert done.stderr.splitlines()[-1] == said


def test_a_table_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    asked = [
        "score",
        T3,
        "--method",
        "all",
        "--model",
        "gone",
        "--out",
        str(tmp_path / "x.parquet"),
    ]
    script = (
        "import sys\nsys.modules['pyarrow'] = None\nfrom mwviz.cli import main\n"
        f"print(main({asked}), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "mwviz: pyarrow is missing: pip install 'mwviz[formats]'\n"
    assert done.stdout == "2 False\n"


def test_a_comparison_without_torch_says_how_to_get_it() -> None:
    script = (
        "import sys\nsys.modules['torch'] = None\n"
        "import mwviz\nfrom mwviz.errors import SetupError\n"
        f"try:\n    mwviz.load({T3!r}).analyses[0].compare('rightmost')\n"
        "except SetupError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "torch is missing: pip install 'mwviz[model]'\n"


def test_another_missing_package_stays_what_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), needed():
        __import__("no_such_package")


@pytest.mark.parametrize("part", ["streamlit.nothing", "pyarrow.nothing.at_all"])
def test_a_package_that_lacks_a_part_is_not_called_missing(part: str) -> None:
    lacking = re.escape(part.removesuffix(".at_all"))
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{lacking}'"), needed():
        __import__(part)


def test_a_packed_trace_without_its_package_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(SetupError, match=r"^zstandard is missing: pip install 'mwviz\[formats\]'$"):
        list(unpacked(io.BytesIO(b"\x28\xb5\x2f\xfd"), "run.jsonl.zst"))


def test_a_run_without_its_tables_package_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SetupError, match=r"^pyarrow is missing: pip install 'mwviz\[formats\]'$"):
        Results(tmp_path, Plan(files=("run.jsonl",), methods=("rightmost",))).write()
