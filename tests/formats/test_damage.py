"""Every fixture of every format, broken: no traceback, and no call lost without a word.

New fixtures are taken in by themselves.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mwviz.errors import TraceError
from mwviz.formats import Reading, read

DATA = Path(__file__).parents[1] / "data"
NAME = re.compile(rb"\"([A-Za-z_]{3,20})\"")
"""Keys, and values that are one word."""
FLIPS = 60
"""Names of a fixture that are flipped, one at a time."""
ONCE = ("formats/memexrl/episodes.jsonl",)
"""Fixtures with a key that stands once in them, so that nothing tells that another is meant."""
FUZZ = settings(max_examples=15, deadline=None)
PARTS = ("b-storage", "b-conversation")
"""Folders that are one trace: their files are read together."""


def fixtures() -> list[Path]:
    """Files that hold a whole trace."""
    places = [*(DATA / "formats").rglob("*"), *(DATA / "cases").rglob("session.jsonl")]
    return [
        path
        for path in sorted(places)
        if path.is_file()
        and path.name != "README.md"
        and path.suffix != ".db"
        and not set(PARTS) & set(path.parts)
    ]


TRACES = fixtures()
LINES = [path for path in TRACES if path.suffix == ".jsonl"]
IDS = [str(path.relative_to(DATA)) for path in TRACES]


def size(reading: Reading) -> int:
    return sum(len(rollout.calls) for rollout in reading.rollouts)


def told(reading: Reading, whole: Reading) -> bool:
    """Whether something is said of a broken file that is not said of the whole one."""
    more = set(reading.damage) - set(whole.damage)
    return bool(more) or not set(reading.warnings) <= set(whole.warnings)


def between_records(data: bytes, cut: int) -> bool:
    """Whether what is left of a file of lines ends with one of them."""
    return not data[cut:].strip() or data[cut - 1 : cut] == b"\n" or data[cut : cut + 1] == b"\n"


@pytest.mark.parametrize("path", TRACES, ids=IDS)
@FUZZ
@example(share=0.5)
@example(share=0.95)
@given(share=st.floats(0.01, 1, exclude_max=True))
def test_what_a_cut_takes_away_is_said(path: Path, share: float) -> None:
    data = path.read_bytes()
    cut = max(1, int(share * len(data)))
    try:
        reading = read(data[:cut])
    except TraceError:
        return
    whole = read(data)
    assert told(reading, whole) or size(reading) == size(whole) or between_records(data, cut)


@pytest.mark.parametrize("path", TRACES, ids=IDS)
@FUZZ
@given(data=st.data())
def test_flipped_bytes_give_calls_or_a_trace_error(path: Path, data: st.DataObject) -> None:
    broken = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    try:
        reading = read(bytes(broken))
    except TraceError:
        return
    assert size(reading)


@pytest.mark.parametrize("path", TRACES, ids=IDS)
def test_a_flipped_letter_of_a_name_takes_no_call_without_a_word(path: Path) -> None:
    data = path.read_bytes()
    whole = read(data)
    places = [match.start(1) + len(match[1]) // 2 for match in NAME.finditer(data)]
    chosen = random.Random(0).sample(places, min(len(places), FLIPS))
    silent = []
    for place in chosen:
        broken = bytearray(data)
        broken[place] = ord("q") if broken[place] != ord("q") else ord("k")
        try:
            reading = read(bytes(broken))
        except TraceError:
            continue
        if size(reading) < size(whole) and not told(reading, whole):
            silent.append(bytes(broken[max(0, place - 20) : place + 20]))
    assert not silent[path.relative_to(DATA).as_posix() in ONCE :], silent


@pytest.mark.parametrize("path", LINES, ids=[str(path.relative_to(DATA)) for path in LINES])
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10_000), copies=st.integers(0, 3))
@example(seed=2, copies=1)
def test_shuffled_and_repeated_lines_take_no_call_without_a_word(
    path: Path, seed: int, copies: int
) -> None:
    data = path.read_bytes()
    lines = [line for line in data.split(b"\n") if line.strip()]
    order = random.Random(seed)
    mixed = lines + order.choices(lines, k=copies)
    order.shuffle(mixed)
    reading, whole = read(b"\n".join(mixed) + b"\n"), read(data)
    assert size(reading) >= size(whole) or told(reading, whole)


def test_an_odd_name_is_said_with_its_line_and_numbers_are_no_odd_names() -> None:
    line = '{"role": "assistant", "content": "%s", "file%d": 1}\n'
    lines = [line % (text, at) for at, text in enumerate("abcd")]
    assert not read("".join(lines).encode()).damage
    lines[2] = lines[2].replace("assistant", "assistqnt")
    lines[3] = lines[3].replace("content", "conuent")
    said = {d.line: d.what for d in read("".join(lines).encode()).damage if "usual" in d.what}
    assert said == {
        3: "'assistqnt' stands once, where 'assistant' is usual: damaged?",
        4: "'conuent' stands once, where 'content' is usual: damaged?",
    }


@pytest.mark.parametrize("path", LINES, ids=[str(path.relative_to(DATA)) for path in LINES])
def test_records_that_do_not_belong_are_said_or_change_nothing(path: Path) -> None:
    data = path.read_bytes()
    before = read(data)
    after = read(data.rstrip(b"\n") + b'\n{"mwviz-unknown": 1}\n\0\0\0\n{"torn": "x')
    assert after.format == before.format
    assert size(after) == size(before)
    last = data.rstrip(b"\n").count(b"\n") + 1
    assert {damage.line for damage in after.damage} >= {last + 2, last + 3}


@pytest.mark.parametrize("folder", sorted((DATA / "formats").iterdir()), ids=lambda path: path.name)
def test_every_format_is_broken_in_some_way(folder: Path) -> None:
    assert any(folder in path.parents for path in TRACES)


@pytest.mark.parametrize("path", TRACES, ids=IDS)
@FUZZ
@given(share=st.floats(0, 1), size=st.integers(1, 600))
def test_zeros_over_a_part_of_a_file_take_no_call_without_a_word(
    path: Path, share: float, size: int
) -> None:
    data = path.read_bytes()
    at = int(share * (len(data) - 1))
    end = min(len(data), at + size)
    if not data[at:end].strip():
        return
    try:
        reading = read(data[:at] + b"\0" * (end - at) + data[end:])
    except TraceError:
        return
    assert reading.damage
