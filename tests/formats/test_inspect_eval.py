from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from mwviz.errors import TraceError
from mwviz.formats import read
from mwviz.rollout import Part, Usage
from tests.formats.test_call_formats import FIXTURES

LOG: dict[str, Any] = json.loads((FIXTURES / "inspect" / "log.json").read_text())
ENTRIES = {
    "_journal/start.json": {"version": 2, "eval": LOG["eval"]},
    "samples/1_epoch_1.json": LOG["samples"][0],
    "header.json": {key: value for key, value in LOG.items() if key != "samples"},
}


def archive(path: Path, method: int) -> Path:
    """An archive of the log; method 93 is Zstandard, which zipfile cannot write."""
    if method != 93:
        with zipfile.ZipFile(path, "w", method) as file:
            for name, value in ENTRIES.items():
                file.writestr(name, json.dumps(value, indent=1))
        return path
    body, directory = b"", b""
    for name, value in ENTRIES.items():
        plain = json.dumps(value).encode()
        packed = zstandard.ZstdCompressor().compress(plain)
        common = struct.pack(
            "<HHHHHIIIHH", 63, 0, 93, 0, 0, zlib.crc32(plain), len(packed), len(plain), len(name), 0
        )
        head = struct.pack("<4sH", b"PK\x01\x02", 63) + common
        directory += head + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name.encode()
        body += b"PK\x03\x04" + common + name.encode() + packed
    count = len(ENTRIES)
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 93])
def test_an_archive_gives_what_its_json_form_gives(tmp_path: Path, method: int) -> None:
    packed, plain = read(archive(tmp_path / "log.eval", method)), read(json.dumps(LOG).encode())
    assert (packed.format, packed.damage) == ("inspect", ())
    left, right = packed.rollouts[0], plain.rollouts[0]
    assert left.id == right.id == "1-epoch-1"
    contexts = [
        [[m.parts for m in (*(c.prompt or ()), *(c.completion or ()))] for c in rollout.calls]
        for rollout in (left, right)
    ]
    assert contexts[0] == contexts[1]


def test_references_attachments_reasoning_and_errors_are_put_in_place() -> None:
    (rollout,) = read(json.dumps(LOG).encode()).rollouts
    last = rollout.calls[3].prompt
    assert last is not None
    assert [m.role for m in last][1:] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool")
    ]
    assert last[1].text.startswith("You keep a garden diary")
    assert last[3].parts[0] == Part("reasoning", "Bed 1 next.")
    assert last[3].parts[2] == Part("tool_call", '{"bed":1}', name="look", id="c1")
    assert last[4].text == "(Tool result removed)"
    assert last[8].parts == (Part("tool_result", "The sensor did not answer.", id="c3"),)
    assert rollout.calls[0].usage == Usage(54, 8, 5)


def test_agents_are_told_by_their_spans_and_a_grader_by_its_role() -> None:
    (rollout,) = read(json.dumps(LOG).encode()).rollouts
    assert [call.lineage for call in rollout.calls] == [*["main"] * 4, "scorers (grader)"]
    assert [(hint.kind, hint.detail) for call in rollout.calls for hint in call.hints] == [
        ("placeholder", "tokens before 90, after 60")
    ]


def test_a_reference_out_of_the_pool_costs_one_call() -> None:
    broken = json.loads(json.dumps(LOG))
    broken["samples"][0]["events"][2]["input_refs"] = [[0, 99]]
    reading = read(json.dumps(broken).encode())
    assert len(reading.rollouts[0].calls) == 4
    assert "expected a range within 9 messages" in reading.damage[0].what


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, 93])
def test_a_damaged_entry_is_reported_and_the_others_are_read(tmp_path: Path, method: int) -> None:
    path = archive(tmp_path / "log.eval", method)
    data = bytearray(path.read_bytes())
    at = data.index(b"_journal/start.json") + len("_journal/start.json") + 8
    data[at : at + 12] = b"\xff" * 12
    path.write_bytes(data)
    reading = read(path)
    assert len(reading.rollouts[0].calls) == 5
    assert len(reading.damage) == 1


def test_a_cut_archive_and_a_zip_of_something_else_are_errors(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval", zipfile.ZIP_DEFLATED)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TraceError, match="is a zip archive, damaged or without"):
        read(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.txt", "x" * 100)
    with pytest.raises(TraceError, match="is a zip archive, damaged or without"):
        read(path)


def test_an_entry_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", b"0" * (80 << 20))
    with pytest.raises(TraceError, match="unpacks to more than"):
        read(path)
