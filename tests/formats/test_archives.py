"""Archives open as the folder or the file that was packed; nothing is written to disk."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from mwviz.errors import TraceError
from mwviz.formats import Reading, read, sources
from mwviz.formats.ordering import natural
from mwviz.formats.tarball import MAX_HEADER

FIXTURES = Path(__file__).parents[1] / "data" / "formats"
FOLDER = FIXTURES / "openhands" / "b-conversation"
SESSION = FIXTURES / "pi" / "a-two-compactions.jsonl"
Files = dict[str, bytes]


def tar(files: Files) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as packed:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def zipped(files: Files) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return stream.getvalue()


PACKS: dict[str, Callable[[Files], bytes]] = {
    "tar": tar,
    "tar.gz": lambda files: gzip.compress(tar(files)),
    "tar.zst": lambda files: zstandard.compress(tar(files)),
    "zip": zipped,
}


def folder() -> Files:
    """The files of a folder, not in the order of their names."""
    paths = sorted(FOLDER.rglob("*.json"), reverse=True)
    return {f"run/{path.relative_to(FOLDER)}": path.read_bytes() for path in paths}


def calls(reading: Reading) -> list[tuple[str, list[str]]]:
    return [
        (call.id, [message.text for message in call.prompt or ()])
        for rollout in reading.rollouts
        for call in rollout.calls
    ]


@pytest.mark.parametrize("pack", PACKS)
def test_a_packed_folder_opens_as_the_folder(pack: str) -> None:
    reading = read(PACKS[pack](folder() | {"run/notes.txt": b"x", "run/._state.json": b"\0"}))
    assert calls(reading) == calls(read(FOLDER))
    assert reading.damage == ()


@pytest.mark.parametrize("pack", PACKS)
def test_a_packed_file_opens_as_the_file(pack: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(PACKS[pack]({"README.md": b"x", "s.jsonl": SESSION.read_bytes() + b"{torn"}))
    reading, plain = read(path), read(SESSION.read_bytes() + b"{torn")
    assert calls(reading) == calls(plain)
    assert reading.damage == plain.damage
    assert reading.rollouts[0].calls[0].line == plain.rollouts[0].calls[0].line


@pytest.mark.parametrize("pack", PACKS)
def test_an_archive_of_several_traces_says_to_name_one(pack: str) -> None:
    files = {"a.jsonl": SESSION.read_bytes(), "b.jsonl": SESSION.read_bytes()}
    with pytest.raises(TraceError, match="is an archive of 2 files of the format pi, expected one"):
        read(PACKS[pack](files))


def test_an_archive_without_json_says_so() -> None:
    for data in (tar({"a.txt": b"x"}), tar({"a.txt": b"x" * 9000})[:700]):
        with pytest.raises(TraceError, match="an archive without JSON files"):
            read(data)


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("files", [folder(), {"s.jsonl": SESSION.read_bytes()}], ids=["n", "one"])
def test_a_cut_archive_says_what_is_missing(share: float, files: Files) -> None:
    data = tar(files)
    used = data.rstrip(b"\0")
    try:
        told = [damage.what for damage in read(used[: int(share * len(used))]).damage]
    except TraceError as error:
        told = [str(error)]
    assert any("archive" in what for what in told)


def test_a_later_copy_of_a_file_is_the_one_that_is_read() -> None:
    reading = read(tar({"s.jsonl": b"{}"})[:1024] + tar({"s.jsonl": SESSION.read_bytes()}))
    assert calls(reading) == calls(read(SESSION))
    assert [damage.what for damage in reading.damage] == [
        "s.jsonl stands in it again: the later one is read"
    ]


def test_links_and_places_outside_are_no_files() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as packed:
        link = tarfile.TarInfo("l.jsonl")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
        outside = tarfile.TarInfo("../../s.jsonl")
        outside.size = len(SESSION.read_bytes())
        packed.addfile(outside, io.BytesIO(SESSION.read_bytes()))
    assert calls(read(stream.getvalue())) == calls(read(SESSION))
    assert not Path("../../s.jsonl").exists()


def test_a_header_that_claims_much_is_damage_not_memory() -> None:
    long = tarfile.TarInfo("x")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, MAX_HEADER + 1
    data = tar({"s.jsonl": SESSION.read_bytes()}).rstrip(b"\0")
    data += b"\0" * (-len(data) % 512) + long.tobuf()
    reading = read(data + b"\0" * 4096)
    assert calls(reading) == calls(read(SESSION))
    assert any("a header of" in damage.what for damage in reading.damage)


def test_what_would_have_to_be_held_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_HELD", 1000)
    with pytest.raises(TraceError, match="do not stand in the order of their names"):
        read(tar(folder()))
    assert (
        read(tar(dict(sorted(folder().items(), key=lambda item: natural(item[0]))))).format
        == "openhands"
    )


def test_a_tar_archive_that_is_piped_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Piped:
        buffer = io.BytesIO(gzip.compress(tar(folder())))

    monkeypatch.setattr("sys.stdin", Piped())
    with pytest.raises(TraceError, match="is a tar archive, expected to be named as a file"):
        read("-")


def test_a_damaged_header_is_no_end_of_the_archive() -> None:
    first, rest = tar({"a.jsonl": SESSION.read_bytes()}).rstrip(b"\0"), tar({"b.jsonl": b"{}"})
    first += b"\0" * (-len(first) % 512)
    whole = bytearray(first + rest)
    whole[len(first) + 3] ^= 1
    reading = read(bytes(whole))
    assert calls(reading) == calls(read(SESSION))
    assert any("the archive is damaged" in damage.what for damage in reading.damage)
