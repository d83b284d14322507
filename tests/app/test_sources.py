"""Which files of a named folder are offered."""

from __future__ import annotations

from pathlib import Path

from mwviz.serve import Launch
from mwviz_app.sources import built_in, named

TRACES = ("a.jsonl", "b.json", "c.traj", "d.eval", "e.db", "f.tar", "g.tar.gz", "h.zip", "i.zst")


def test_every_kind_of_file_that_opens_is_offered_and_no_other(tmp_path: Path) -> None:
    for name in (*TRACES, "notes.md", "model.safetensors"):
        (tmp_path / name).write_bytes(b"")
    found = named(Launch(paths=(str(tmp_path),)))
    assert [source.name for source in found.values()] == list(TRACES)


def test_what_is_done_to_the_list_of_demos_reaches_nobody_else(tmp_path: Path) -> None:
    known = dict(built_in(tmp_path))
    built_in(tmp_path).clear()
    assert built_in(tmp_path) == known
    assert known
