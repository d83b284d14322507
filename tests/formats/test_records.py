from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mwviz.errors import SetupError, TraceError
from mwviz.formats import lines as physical
from mwviz.formats import read, recognised, unpack
from mwviz.formats import records as opened
from mwviz.formats.fields import Json
from mwviz.formats.records import Record, Records

CASE = Path(__file__).parents[1] / "data" / "cases" / "H11" / "input.txt"
PACK = {"plain": lambda data: data, "gzip": gzip.compress, "zstd": zstandard.compress}


def all_of(data: bytes) -> tuple[list[Record], Records]:
    records = Records(data)
    return list(records), records


def values(data: bytes) -> list[Json]:
    return [record.value for record in all_of(data)[0]]


def damaged_lines() -> bytes:
    return CASE.read_bytes().rstrip(b"\n").replace(b"<512 NUL bytes>", b"\0" * 512)


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
def test_whole_records_are_saved_from_a_damaged_file(pack) -> None:  # type: ignore[no-untyped-def]
    found, records = all_of(pack(damaged_lines()))
    assert [record.value["n"] for record in found] == [1, 2, 4, 5, 6, 7, 8]  # type: ignore[call-overload,index]
    assert [record.line for record in found] == [1, 2, 3, 4, 5, 5, 7]
    assert [(d.line, d.bytes, d.kept) for d in records.damage] == [
        (3, 22, "1 record"),
        (5, 0, "2 records"),
        (6, 512, "nothing"),
        (8, 29, "nothing"),
    ]


def test_a_brace_pair_inside_a_string_splits_nothing() -> None:
    assert values(b'{"text":"a}{b"}') == [{"text": "a}{b"}]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b'{"a":1,"b":{"c":2},"d":"cut', []),
        (b'{"a":1,"b":{"c":2}', []),
        (b'{"a":1,"b":{"a":2,"b":3}', [{"a": 2, "b": 3}]),
        (b'{"a":"x{"a":4,"b":5}', [{"a": 4, "b": 5}]),
        (b'{"a":"torn {"x":1}{"y":2}', [{"x": 1}, {"y": 2}]),
        (b'{"a":1}{"b"', [{"a": 1}]),
        (b'{"a":1}rest', [{"a": 1}]),
        (b'{"a":"use {}', []),
        (b'log: {"a":1}', [{"a": 1}]),
    ],
)
def test_a_part_of_a_torn_record_is_no_record(line: bytes, kept: list[Json]) -> None:
    found, records = all_of(b'{"a":0,"b":0}\n' + line)
    assert [record.value for record in found[1:]] == kept
    assert [d.line for d in records.damage] == [2]


def test_line_ends_marks_and_blank_lines_are_no_damage() -> None:
    found, records = all_of(b'\xef\xbb\xbf{"a":1}\r\n\r\n   \n{"a":2}\r\n')
    assert [(record.line, record.value) for record in found] == [(1, {"a": 1}), (4, {"a": 2})]
    assert records.damage == []


def test_bytes_that_are_not_text_are_replaced_and_reported() -> None:
    found, records = all_of(b'{"a":1}\n{"a":"x\xffy"}\n{"a":"\\ud800 \\ud83d\\ude00"}')
    assert [record.value for record in found[1:]] == [{"a": "x\ufffdy"}, {"a": "\ufffd \U0001f600"}]
    assert [(d.line, d.bytes, d.kept) for d in records.damage] == [
        (2, 0, "1 record"),
        (3, 0, "1 record"),
    ]


@pytest.mark.parametrize("depth", [500, 100_000])
@pytest.mark.parametrize(("left", "right"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_deep_nesting_is_damage(depth: int, left: bytes, right: bytes) -> None:
    found, records = all_of(b'{"a":1}\n' + left * depth + b"1" + right * depth + b'\n{"a":2}')
    assert [record.line for record in found] == [1, 3]
    assert [d.line for d in records.damage] == [2]


def test_numbers_that_json_does_not_know_are_read() -> None:
    assert str(values(b'{"a":NaN,"b":-Infinity}\n{"a":1}')[0]) == "{'a': nan, 'b': -inf}"


def test_a_number_too_long_to_read_costs_its_record_only() -> None:
    found, records = all_of(b'{"a":1}\n{"a":' + b"9" * 5000 + b'}\n{"a":2}')
    assert [record.line for record in found] == [1, 3]
    assert [d.line for d in records.damage] == [2]


def test_an_indented_document_is_read_with_the_lines_of_its_items() -> None:
    found, records = all_of(b'[\n {"a": 1},\n {\n "a": 2},\n\n {"a": 3}\n]\n')
    assert [(r.line, r.value) for r in found] == [(2, {"a": 1}), (3, {"a": 2}), (6, {"a": 3})]
    assert records.damage == []


def test_a_document_that_breaks_off_keeps_its_whole_items() -> None:
    found, records = all_of(b'[\n {"a": 1},\n {"a": 2},\n {"a": "thr')
    assert [record.value for record in found] == [{"a": 1}, {"a": 2}]
    assert [d.line for d in records.damage] == [4]


def test_a_list_on_one_line_stands_for_its_items() -> None:
    assert values(b'[{"a":1},{"a":2}]') == [{"a": 1}, {"a": 2}]
    assert values(b'[{"a":1}]\n[{"a":2}]') == [[{"a": 1}], [{"a": 2}]]


def test_a_truncated_gzip_keeps_what_unpacks() -> None:
    lines = b"".join(b'{"n":%d,"text":"%d"}\n' % (n, n**5) for n in range(2000))
    packed = gzip.compress(lines, mtime=0)
    found, records = all_of(packed[: len(packed) // 2])
    assert 500 < len(found) < 1500
    assert [record.value["n"] for record in found] == list(range(len(found)))  # type: ignore[call-overload,index]
    assert any("gzip data end early" in d.what for d in records.damage)


def test_packed_streams_may_follow_one_another() -> None:
    for pack in (gzip.compress, zstandard.compress):
        assert values(pack(b'{"a":1}\n') + pack(b'{"a":2}\n')) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_is_refused_by_its_ratio(pack) -> None:  # type: ignore[no-untyped-def]
    bomb = pack(b"\0" * (unpack.RATIO_FROM + (8 << 20)))
    with pytest.raises(TraceError, match="packed bytes unpack to more than"):
        all_of(bomb)


def test_a_packed_file_is_refused_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MAX_UNPACKED", 50_000)
    lines = b"".join(b'{"n":%d}\n' % n for n in range(10_000))
    with pytest.raises(TraceError, match="expected at most 50,000 bytes"):
        all_of(gzip.compress(lines, mtime=0))


def test_a_file_of_other_lines_is_given_up_early() -> None:
    records = Records(b"no json\n" * 3 * opened.GIVE_UP)
    with pytest.raises(TraceError, match="<bytes>:1: text that is not JSON"):
        list(records)
    assert len(records.damage) == opened.GIVE_UP


def test_a_line_over_the_limit_is_dropped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(physical, "MAX_LINE", 200_000)
    long = b'{"a":"' + b"x" * 300_000 + b'"}'
    found, records = all_of(b'{"a":1}\n' + long + b'\n{"a":2}')
    assert [record.line for record in found] == [1, 3]
    assert [(d.line, d.bytes) for d in records.damage] == [(2, len(long))]


def test_huge_lines_are_read() -> None:
    assert values(b'{"a":"' + b"x" * 5_000_000 + b'"}\n{"b":1}')[1] == {"b": 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "<bytes>: empty, expected JSON Lines or a JSON document"),
        (b" \n\n", "<bytes>: empty, expected"),
        (b"hello\nworld\n", "<bytes>:1: text that is not JSON: 'hello'"),
        (b'"text"\n12\n', "<bytes>:1: a JSON string: '\"text\"'"),
        (b"12\n", "<bytes>:1: a JSON value that is no object: '12'"),
        (b"\0" * 100, "<bytes>:1: 100 NUL bytes"),
        (b"PK\x03\x04rest", "<bytes>: is a zip archive, damaged or without JSON in it, expected"),
        (b"\x80\x04\x95", "is a pickle .never opened."),
        (b"\xff\xfe{\0", "is UTF-16 text"),
        (gzip.compress(b'{"a":1}', mtime=0)[:12], "gzip data end early"),
    ],
)
def test_what_holds_no_record_is_refused_in_words(data: bytes, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        all_of(data)


def test_paths_that_cannot_be_read_are_refused_in_words(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, "is a directory, expected a trace file"),
        (tmp_path / "none.jsonl", "No such file or directory"),
        (Path("a\0b"), "expected a readable file"),
    ):
        with pytest.raises(TraceError, match=message):
            list(Records(path))


def test_traces_that_cannot_be_looked_at_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    with pytest.raises(TraceError, match=r"x: File name too long, expected a readable file"):
        read(path)
    assert not recognised(path)


def test_zstandard_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zstandard.compress(b'{"a":1}')
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(SetupError, match="pip install 'mwviz"):
        all_of(packed)


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a":1}\n')))
    records = Records("-")
    assert [record.value for record in records] == [{"a": 1}]
    assert records.name == "<stdin>"


def test_the_kind_of_file_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_bytes(gzip.compress(b'{"a":1}', mtime=0))
    assert [record.value for record in Records(path)] == [{"a": 1}]


def test_looking_at_the_head_takes_nothing_away() -> None:
    records = Records(b'{"a":1}\n{"a":2}')
    assert len(records.head()) == 2
    assert [record.line for record in records] == [1, 2]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.lists(
    st.dictionaries(st.text(max_size=4), JSON_VALUES, max_size=4), min_size=1, max_size=8
)


def lines_of(items: list[dict[str, Json]]) -> bytes:
    return b"\n".join(json.dumps(item, ensure_ascii=False).encode() for item in items)


@given(OBJECTS, st.sampled_from(sorted(PACK)))
def test_every_whole_record_comes_out_as_it_went_in(
    items: list[dict[str, Json]], kind: str
) -> None:
    found, records = all_of(PACK[kind](lines_of(items)))
    assert [record.value for record in found] == items
    assert [damage for damage in records.damage if "is usual" not in damage.what] == []


@given(OBJECTS, st.data())
def test_damage_costs_no_other_line_and_is_always_reported(
    items: list[dict[str, Json]], data: st.DataObject
) -> None:
    broken = bytearray(lines_of(items))
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    broken = broken[: data.draw(st.integers(1, len(broken)))]
    try:
        found, records = all_of(bytes(broken))
    except TraceError:
        return
    reported = {d.line for d in records.damage}
    values_at: dict[int, list[Json]] = {}
    for record in found:
        values_at.setdefault(record.line, []).append(record.value)
    for number, line in enumerate(bytes(broken).split(b"\n"), 1):
        try:
            whole = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError):
            whole = None
        if isinstance(whole, dict):
            assert values_at[number] == [whole]
        elif line.strip(b" \t\r\x0b\x0c") and number not in values_at:
            assert number in reported


DOCUMENT = {
    "id": "x",
    "tools": [{"a": 1}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": f'a, "}}] \\ {at}'}]}
        for at in range(5)
    ],
    "end": 1,
}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_record_that_breaks_off_keeps_its_whole_items(indent: int | None) -> None:
    text = json.dumps(DOCUMENT, indent=indent)
    first_item = text.index(json.dumps("user"))
    kept = set()
    for cut in range(first_item, len(text)):
        records = Records(text[:cut].encode())
        (record,) = records
        assert isinstance(record.value, dict)
        listed = record.value.get("messages", [])
        assert isinstance(listed, list)
        assert DOCUMENT["messages"][: len(listed)] == listed  # type: ignore[index]
        (damage,) = records.damage
        assert text[:cut].rstrip().count("\n") < damage.line <= text[:cut].count("\n") + 1
        assert "the document breaks off" in damage.what
        kept.add(len(listed))
    assert kept == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("end", ["", ",", ",\n"])
def test_a_printed_list_that_is_not_closed_is_said_to_break_off(end: str) -> None:
    records = Records(('[\n {"a": 1},\n {"a": 2}' + end).encode())
    assert len(list(records)) == 2
    (damage,) = records.damage
    assert damage.what == "the list is not closed: more may have followed"


def test_an_error_within_a_printed_document_is_named_by_line_and_column() -> None:
    text = json.dumps(DOCUMENT, indent=2).replace('"role": "user"', '"role": user"', 3)
    text = text.replace('"role": user"', '"role": "user"', 2)
    records = Records(text.encode())
    (record,) = records
    assert len(record.value["messages"]) == 2  # type: ignore[call-overload,arg-type,index]
    (damage,) = records.damage
    line = text.split("\n").index('      "role": user",') + 1
    assert (damage.line, damage.kept) == (line, "2 whole items")
    assert "from column 15 on" in damage.what
    assert damage.bytes > len(text) / 3


def test_a_torn_file_of_no_known_format_is_said_to_be_torn() -> None:
    with pytest.raises(TraceError, match="the file is damaged in 1 place, first line 5: "):
        read(json.dumps({"alpha": 1, "beta": [2, 3]}, indent=1)[:-6].encode())


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zipped_log_opens_as_the_log(method: int) -> None:
    lines = "".join(
        json.dumps({"prompt_ids": [1], "completion_ids": [at]}) + "\n" for at in range(50)
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as file:
        file.writestr("notes.txt", "about")
        file.writestr("run/calls.jsonl", lines)
    (rollout,) = read(packed.getvalue()).rollouts
    assert [int(c.completion_ids[0]) for c in rollout.calls if c.completion_ids is not None] == [
        *range(50)
    ]
