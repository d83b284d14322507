from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from mwviz import store
from mwviz.engine.scores import Floor, Scores
from mwviz.errors import SetupError
from mwviz.store import Found, Key, Usage

KEY = Key("trace", "tiny@1", "packed_mask", "float32", "sdpa", "cpu")
SCORES = Scores(
    method="packed_mask",
    model="tiny@1",
    kernel="sdpa",
    dtype="float32",
    device="cpu",
    logprob=np.array([-0.5, np.nan], dtype=np.float32),
    entropy=np.array([1.5, np.nan], dtype=np.float32),
    rank=np.array([0, -1], dtype=np.int32),
    hidden=np.arange(6, dtype=np.float32).reshape(2, 3),
    floor=Floor(1e-6, 1e-5, 2),
    seconds=0.25,
    notes=("one note",),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("hidden", [SCORES.hidden, None])
def test_scores_come_back_as_they_were(hidden: np.ndarray | None) -> None:
    scores = replace(SCORES, hidden=hidden)
    store.save(KEY, scores)
    found = store.load(KEY)
    assert found.reason == ""
    assert found.scores is not None
    assert same(found.scores, scores)


@pytest.mark.parametrize("part", Key._fields)
def test_every_part_of_the_key_counts(part: str) -> None:
    store.save(KEY, SCORES)
    assert store.load(KEY._replace(**{part: "other"})) == Found(None, "not scored yet")


def test_later_scores_replace_earlier_ones() -> None:
    store.save(KEY, SCORES)
    store.save(KEY, replace(SCORES, seconds=9.0))
    found = store.load(KEY).scores
    assert found is not None
    assert found.seconds == 9.0
    assert store.usage().files == 1


def test_cut_or_empty_file_counts_as_absent_with_the_reason() -> None:
    path = store.save(KEY, SCORES)
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[: len(whole) // 2], whole[:-1], b"\x00" * 500):
        path.write_bytes(damaged)
        found = store.load(KEY)
        assert found.scores is None
        assert "cannot be read" in found.reason


@pytest.mark.parametrize("flip", [0x01, 0xFF])
def test_no_damaged_byte_changes_a_number_in_silence(flip: int) -> None:
    path = store.save(KEY, SCORES)
    whole = path.read_bytes()
    absent = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= flip
        path.write_bytes(bytes(damaged))
        found = store.load(KEY)
        if found.scores is None:
            assert found.reason
            absent += 1
        else:
            assert same(found.scores, SCORES), place
    assert absent > len(whole) / 3


def same(kept: Scores, given: Scores) -> bool:
    pairs = [(getattr(kept, f.name), getattr(given, f.name)) for f in fields(Scores)]
    return all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        else a == b
        for a, b in pairs
    )


def test_pickled_arrays_are_never_read() -> None:
    path = store.save(KEY, SCORES)
    with np.load(path) as archive:
        meta = archive["meta"]
    ran = np.array([sys.modules], dtype=object)[:0]
    with path.open("wb") as stream:
        np.savez(stream, meta=meta, logprob=ran)
    found = store.load(KEY)
    assert found.scores is None
    assert "allow_pickle" in found.reason


def test_arrays_of_another_shape_or_type_are_refused() -> None:
    path = store.save(KEY, SCORES)
    with np.load(path) as archive:
        held = dict(archive)
    for name, wrong in (("entropy", held["entropy"][:1]), ("rank", held["rank"].astype(np.int64))):
        with path.open("wb") as stream:
            np.savez(stream, **(held | {name: wrong}))
        assert f"{name} is" in store.load(KEY).reason


def test_file_of_another_key_is_not_taken(cache: Path) -> None:
    path = store.save(KEY, SCORES)
    other = store.save(KEY._replace(method="replay"), SCORES)
    other.replace(path)
    assert "another version" in store.load(KEY).reason
    assert list(cache.rglob("*.part")) == []


def test_usage_and_clear_count_what_is_kept(cache: Path) -> None:
    assert store.usage() == Usage(0, 0)
    path = store.save(KEY, SCORES)
    size = path.stat().st_size
    assert cache in path.parents
    assert store.usage() == store.clear() == Usage(1, size)
    assert store.usage() == Usage(0, 0)
    assert store.load(KEY).scores is None


def test_folder_that_cannot_be_written_is_a_setup_error(cache: Path) -> None:
    (cache / "mwviz").write_text("in the way")
    with pytest.raises(SetupError, match="scores cannot be kept"):
        store.save(KEY, SCORES)


@pytest.mark.parametrize(
    "module", ["mwviz.store", "mwviz.engine.scores", "mwviz.engine.embedded", "mwviz.engine.steps"]
)
def test_import_without_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_kept_of_a_rollout_is_found_by_its_tokens_the_oldest_first() -> None:
    keys = [KEY._replace(method=name) for name in ("rightmost", "logit_tree")]
    for at, key in enumerate([*keys, KEY._replace(trace="other")]):
        os.utime(store.save(key, SCORES), ns=(at, at))
    store.folder().joinpath("broken.npz").write_bytes(b"PK")
    store.folder().joinpath("of.tokens.npz").write_bytes(b"PK")
    assert store.held("trace") == tuple(keys)
    assert store.held("nothing") == ()


def test_a_file_that_goes_while_the_cache_is_read_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = KEY._replace(method="rightmost")
    store.save(KEY, SCORES)
    gone, read = store.save(other, SCORES), Path.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        if path == gone:
            path.unlink()
        return read(path, **how)

    monkeypatch.setattr(Path, "stat", stat)
    assert store.held("trace") == (KEY,)
