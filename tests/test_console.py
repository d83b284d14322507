"""Where results may be written is found out before the work, as the system decides it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mwviz.console import output_file, output_folder
from mwviz.errors import TraceError


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
