"""Where results may be written, and what becomes of what is printed, is the system's to decide."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from mwviz.cli import main
from mwviz.console import output, output_file, output_folder, print_json
from mwviz.errors import TraceError

T3 = str(Path(__file__).parent / "data" / "cases" / "vector-3-summary-tail" / "calls.jsonl")
CHECK, INSPECT = ("check", T3), ("inspect", T3)
BUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"])
"""Whether Python writes at the end or at once."""


def run(
    arguments: tuple[str, ...],
    stdout: IO[str] | int = subprocess.PIPE,
    stderr: IO[str] | int = subprocess.PIPE,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mwviz", *arguments],
        stdout=stdout,
        stderr=stderr,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe whose reader has left."""
    there, here = os.pipe()
    os.close(there)
    yield here
    os.close(here)


@pytest.fixture(autouse=True)
def anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights of a user who owns nothing, whoever runs the tests."""

    def access(path: Path, wanted: int) -> bool:
        return path.stat().st_mode & wanted == wanted

    monkeypatch.setattr(os, "access", access)


def test_a_file_that_is_there_counts_and_not_its_folder(tmp_path: Path) -> None:
    kept = tmp_path / "out.json"
    kept.touch()
    kept.chmod(0o666)
    tmp_path.chmod(0o755)
    assert output_file(str(kept)) == kept
    with pytest.raises(TraceError, match=r"cannot be written: .* is read-only for you"):
        output_file(str(tmp_path / "new.json"))


def test_a_file_that_is_read_only_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    kept = tmp_path / "out.json"
    kept.touch()
    kept.chmod(0o444)
    with pytest.raises(TraceError, match=r"out\.json: cannot be written: it is read-only for you"):
        output_file(str(kept))
    assert output_file(str(tmp_path / "new.json")) == tmp_path / "new.json"


def test_what_throws_everything_away_can_be_written() -> None:
    assert output_file(os.devnull) == Path(os.devnull)


@pytest.mark.parametrize("asked", [output_file, output_folder])
def test_a_place_that_cannot_be_looked_at_is_refused(
    asked: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    for name in ("is_dir", "exists"):
        monkeypatch.setattr(Path, name, look)
    with pytest.raises(TraceError, match="out: cannot be written: Permission denied"):
        asked(str(tmp_path / "out"))


def test_a_name_that_the_system_refuses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be written"):
        output_file(str(tmp_path / ("x" * 300) / "out.json"))


def test_no_file_is_made_of_the_sign_for_standard_input(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(TraceError, match="-: is no name of a file to write"):
        output_file("-")
    assert output_file(str(tmp_path / "-")) == tmp_path / "-"


@BUFFERED
@pytest.mark.parametrize(("arguments", "status"), [(CHECK, 1), (INSPECT, 0)])
def test_a_reader_that_leaves_early_changes_no_status(
    arguments: tuple[str, ...], status: int, unbuffered: str, unread: int
) -> None:
    done = run(arguments, unread, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == status
    assert "Broken pipe" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("check", "TORN"), 1),
        (("check", T3, "--max-future", "5"), 0),
        (("check", "nothere.jsonl"), 2),
        (("no-command",), 2),
    ],
    ids=["torn", "clean", "missing", "usage"],
)
@pytest.mark.parametrize("place", ["unread", "full", "closed"])
def test_words_on_stderr_that_nobody_can_read_change_nothing(
    *,
    arguments: tuple[str, ...],
    status: int,
    place: str,
    unread: int,
    tmp_path: Path,
) -> None:
    torn = tmp_path / "torn.jsonl"
    torn.write_text(Path(T3).read_text() + '{"torn\n' * 3)
    asked = tuple(str(torn) if given == "TORN" else given for given in arguments)
    heard = run(asked)
    if place == "closed":
        shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "mwviz", *asked]
        done = subprocess.run(shell, stdout=subprocess.PIPE, text=True, check=False)
    else:
        with Path("/dev/full").open("w") as full:
            where = full if place == "full" else unread
            done = run(asked, stderr=where)
    assert heard.stderr or status == 0
    assert (heard.returncode, done.returncode) == (status, status)
    assert done.stdout == heard.stdout


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("<&-", "is closed, expected a trace"),
        ("</proc/self/mem", "Input/output error, expected a readable file"),
    ],
)
def test_standard_input_that_cannot_be_read_is_said_in_a_line(source: str, why: str) -> None:
    asked = f'"$1" -m mwviz check - {source}'
    shell = ["sh", "-c", asked, "sh", sys.executable]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"mwviz: <stdin>: {why}\n")


@BUFFERED
@pytest.mark.parametrize("arguments", [CHECK, INSPECT])
def test_output_that_does_not_fit_is_said_in_a_line(
    arguments: tuple[str, ...], unbuffered: str
) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(arguments, full, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "mwviz: output cannot be written: No space left on device"
    )


def test_another_place_that_is_full_is_named() -> None:
    done = run(("bench", "--scale", "0.02", "-o", "/dev/full"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "mwviz: /dev/full: cannot be written: No space left on device"
    )


def test_an_error_of_the_work_is_not_taken_for_the_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for taken in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stdout", taken)
        with pytest.raises(BrokenPipeError, match="of the work"), output():
            raise BrokenPipeError("of the work")


def test_a_callers_own_output_is_as_before(monkeypatch: pytest.MonkeyPatch, unread: int) -> None:
    own = io.TextIOWrapper(io.FileIO(unread, "w", closefd=False), write_through=True)
    monkeypatch.setattr(sys, "stdout", own)
    assert main(["check", T3]) == 1
    assert sys.stdout is own
    with pytest.raises(BrokenPipeError):
        own.write("still his")


def test_every_locale_can_show_what_is_printed() -> None:
    done = run(INSPECT, subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\xb7 1 eviction \xb7" in done.stdout


def test_json_has_null_for_what_is_not_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [math.nan, 1.5], "b": ({"c": math.inf},)})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5], "b": [{"c": None}]}
