"""Which files of a named folder are offered."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace

import pytest

import mwviz
from mwviz import serve
from mwviz.errors import TraceError
from mwviz.serve import Launch
from mwviz_app import kept
from mwviz_app.sources import built_in, named, version_of

FORMATS = Path(__file__).parents[1] / "data" / "formats"

TRACES = ("a.jsonl", "b.json", "c.traj", "d.eval", "e.db", "f.tar", "g.tar.gz", "h.zip", "i.zst")


def test_every_kind_of_file_that_opens_is_offered_and_no_other(tmp_path: Path) -> None:
    for name in (*TRACES, "notes.md", "model.safetensors"):
        (tmp_path / name).write_bytes(b"")
    found = named(Launch(paths=(str(tmp_path),))).traces
    assert [source.name for source in found.values()] == list(TRACES)


def conversation_of_the_first_generation(folder: Path) -> None:
    (folder / "events").mkdir(parents=True)
    (folder / "events" / "0.json").write_text("{}")


@pytest.mark.parametrize("format_name", ["openhands/b-conversation", "opencode/b-storage"])
def test_a_folder_that_is_one_trace_is_offered_as_one_and_opens(
    format_name: str, tmp_path: Path
) -> None:
    copytree(FORMATS / format_name, tmp_path / "one")
    (tmp_path / "other.jsonl").write_text("")
    (one, other) = named(Launch(paths=(str(tmp_path),))).traces.values()
    assert (one.name, other.name) == ("one", "other.jsonl")
    assert mwviz.load(one.path).rollouts


def test_conversations_of_a_folder_are_offered_one_by_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        conversation_of_the_first_generation(tmp_path / "sessions" / name)
    found = named(Launch(paths=(str(tmp_path),))).traces
    assert [source.name for source in found.values()] == ["sessions/a", "sessions/b"]


def test_a_named_folder_that_is_one_trace_is_called_by_its_name(tmp_path: Path) -> None:
    conversation_of_the_first_generation(tmp_path / "mine")
    (found,) = named(Launch(paths=(str(tmp_path / "mine"),))).traces.values()
    assert (found.name, found.path) == ("mine", tmp_path / "mine")


def test_a_folder_is_another_version_once_a_file_in_it_has_changed(tmp_path: Path) -> None:
    conversation_of_the_first_generation(tmp_path)
    event = tmp_path / "events" / "0.json"
    before = version_of(tmp_path)
    assert version_of(tmp_path) == before
    event.write_text("[]")
    os.utime(event, ns=(before.changed + 1, before.changed + 1))
    assert version_of(tmp_path) == before._replace(changed=before.changed + 1)
    (tmp_path / "events" / "1.json").write_text("{}")
    assert version_of(tmp_path).bytes == before.bytes + 2


def test_what_is_done_to_the_list_of_demos_reaches_nobody_else(tmp_path: Path) -> None:
    known = dict(built_in(tmp_path))
    built_in(tmp_path).clear()
    assert built_in(tmp_path) == known
    assert known


@pytest.mark.usefixtures("fresh_caches")
def test_named_folders_are_looked_through_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10.0]
    monkeypatch.setattr(kept, "time", SimpleNamespace(monotonic=lambda: now[0]))
    launch = Launch(paths=(str(tmp_path),))

    def names() -> list[str]:
        return [source.name for source in kept.named(launch).traces.values()]

    assert names() == []
    (tmp_path / "a.jsonl").write_text("")
    now[0] = 10.9
    assert names() == []
    now[0] = 11.0
    assert names() == ["a.jsonl"]


def test_no_entry_of_a_cache_ends_by_itself() -> None:
    """Streamlit raises a KeyError in the page where one ends just while it is read."""
    for module in Path(serve.entry()).parent.glob("*.py"):
        assert "ttl=" not in module.read_text(), module.name


def test_a_trace_that_vanishes_while_it_is_looked_at_is_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TraceError, match=r"run\.jsonl: is gone, expected the trace"):
        version_of(tmp_path / "run.jsonl")
    conversation_of_the_first_generation(tmp_path)
    before = version_of(tmp_path)
    walked: list[tuple[str, list[str], list[str]]] = [
        (str(tmp_path / "events"), [], ["0.json", "gone.json"])
    ]
    monkeypatch.setattr(os, "walk", lambda _: iter(walked))
    assert version_of(tmp_path) == before
