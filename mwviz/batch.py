"""A trainer's actual batch: the sequences it fed, with positions, mask and loss weights.

Reads .npz, .safetensors, .parquet and JSON Lines; arrays are (T,), or (B, T) for several sequences.
Batches of trainers are read under their own names. Nothing is unpickled.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mwviz.batch_rows import ADVANTAGES, named, named_rollout, rows
from mwviz.errors import TraceError, reason
from mwviz.extras import needed
from mwviz.formats.fields import ROUNDING, nats
from mwviz.trie import Longs

_UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile)
IGNORED = -100
"""Label of a token without loss, as trainers write it."""
TOLD = {
    "logprobs": "the trainer's log-probability",
    "sampled_logprobs": "the log-probability when sampled",
    "advantages": "the advantage",
}
"""What a batch may tell of the tokens that it trains, in words."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """One row of a batch without its padding. T tokens."""

    ids: npt.NDArray[np.int32]
    """int32 (T,)."""
    positions: Longs
    """int64 (T,): position ids; counted from each document's start if the batch has none."""
    until: Longs
    """int64 (T,): key k is seen by the queries `k <= q < until[k]`."""
    query: Longs
    """int64 (T,): place of the token whose state predicts each token, -1 for none."""
    weight: npt.NDArray[np.float32]
    """float32 (T,): loss weight of predicting each token."""
    logprobs: npt.NDArray[np.float32] | None
    """float32 (T,): the trainer's own log-probability of each token, in nats."""
    sampled: npt.NDArray[np.float32] | None
    """float32 (T,): its log-probability when sampled, in nats, if the batch carries it."""
    advantages: npt.NDArray[np.float32] | None
    """float32 (T,): NaN where the batch has null, or trains nothing."""

    def at(self, name: str, places: Longs) -> npt.NDArray[np.float64]:
        """float64: `logprobs`, `sampled` or `advantages` of some tokens, NaN without the array."""
        values = getattr(self, name)
        return np.full(len(places), np.nan) if values is None else values[places].astype(float)


def read_batch(path: str | Path, *, rollout: str | None = None) -> tuple[Sequence, ...]:
    """The sequences of a batch file.

    Args:
        path: of the file.
        rollout: id of the rollout that is meant: where some records of the file name it, those
            that name another one are left out.

    Raises:
        SetupError: a package that reads such a file is not installed.
        TraceError: the file cannot be read, has no `input_ids`, its arrays do not fit, or a trained
            token has a log-probability above 0 or an advantage that is not finite.
    """
    source = Path(path)
    sequences: list[Sequence] = []
    records: list[dict[str, Any]] = []
    for record in _records(source):
        if not isinstance(record, dict):
            raise TraceError(f"{source}: expected objects with input_ids, found {record!r:.40}")
        records.append(record)
    for at, record in _of_rollout(records, rollout):
        for row in rows(record, f"{source}: record {at}"):
            place = f"{source}: sequence {len(sequences) + 1}"
            sequences.append(_sequence(named(row, place), place))
    if not sequences:
        raise TraceError(f"{source}: no sequences, expected arrays named input_ids, loss_mask, ...")
    return tuple(sequences)


def _of_rollout(
    records: list[dict[str, Any]], rollout: str | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records that may belong to a rollout, numbered from 1; all, if none of them names it."""
    names = [named_rollout(record) for record in records]
    everything = rollout is None or rollout not in names
    for at, (record, name) in enumerate(zip(records, names, strict=True), 1):
        if everything or name in (None, rollout):
            yield at, record


def _records(path: Path) -> Iterator[object]:
    try:
        match path.suffix:
            case ".npz":
                with np.load(path, allow_pickle=False) as archive:
                    yield {name: archive[name] for name in archive.files}
            case ".safetensors":
                yield dict(_safetensors(path))
            case ".parquet":
                yield from _parquet(path)
            case _:
                # Not splitlines: text in JSON may hold U+2028 and the like as they are.
                for line in path.read_text(encoding="utf-8-sig").split("\n"):
                    if line.strip():
                        yield json.loads(line)
    except _UNREADABLE as error:
        pickled = "pickle" in str(error)
        why = "it holds pickled objects, which are never read" if pickled else reason(error)
        raise TraceError(
            f"{path}: not a batch that can be read: {why}; expected .npz, .safetensors, .parquet "
            "or JSON Lines"
        ) from error


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a table; null stays None among advantages, where an array would have NaN."""
    with needed():
        import_module("pyarrow")  # by itself: the extra is told by this name
    table = import_module("pyarrow.parquet").read_table(path)
    frame = table.to_pandas()
    gains = {name: table.column(name).to_pylist() for name in ADVANTAGES if name in frame}
    for at, row in enumerate(frame.to_dict("records")):
        told = {name: column[at] for name, column in gains.items()}
        yield {str(name): value for name, value in row.items()} | told


def _safetensors(path: Path) -> Mapping[str, npt.NDArray[Any]]:
    with needed():
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

    try:
        arrays: Mapping[str, npt.NDArray[Any]] = load_file(path)
    except SafetensorError as error:
        raise TraceError(f"{path}: not a safetensors file: {error}") from error
    return arrays


def _sequence(record: dict[str, Any], place: str) -> Sequence:
    if "input_ids" not in record:
        names = ", ".join(sorted(record)) or "nothing"
        raise TraceError(f"{place}: expected an array named input_ids, found {names:.200}")
    ids = _array(record, "input_ids", np.int32, place)
    size = len(ids)
    mask = np.asarray(record.get("attention_mask", np.ones(size)))
    if mask.ndim == 1 and mask.shape != (size,):
        raise TraceError(f"{place}: attention_mask has shape {mask.shape}, expected {size} values")
    held = mask.astype(bool) if mask.ndim == 1 else np.ones(size, dtype=bool)
    until, starts = _visibility(record, mask, size, place)
    positions = np.arange(size) - starts
    if record.get("position_ids") is not None:
        positions = _array(record, "position_ids", np.int64, place, size)
    weight = _weights(record, ids, held, place)
    query = np.arange(size) - 1
    if record.get("predicted_from") is not None:
        query = _array(record, "predicted_from", np.int64, place, size)
        late = held & (query >= np.arange(size))
        if late.any():
            at = int(late.argmax())
            raise TraceError(
                f"{place}: predicted_from[{at}] is {query[at]}, expected a place before its own"
            )
    index = np.concatenate(([0], np.cumsum(held)))
    query = np.where((query < 0) | ~held[query], -1, index[query])
    trained = held & (weight != 0) & (query >= 0)
    logprobs, sampled, advantages = (
        None if record.get(name) is None else _told(record, name, place, trained)[held]
        for name in TOLD
    )
    return Sequence(
        ids[held],
        positions[held].astype(np.int64),
        index[until][held],
        query[held],
        weight[held],
        logprobs,
        sampled,
        advantages,
    )


def _told(
    record: dict[str, Any], name: str, place: str, trained: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """float32 (T,): one of `TOLD`; what stands where nothing is trained is not looked at."""
    values, given = _array(record, name, np.float32, place, len(trained)), record[name]
    if name == "advantages":
        odd, expected = ~np.isfinite(values), "a finite number in float32, or null for none"
    else:
        odd, expected = values > ROUNDING, "a number of at most 0, or NaN for none"
        values = nats(values)
    for at in np.flatnonzero(odd & trained).tolist():
        if given[at] is not None:
            told = f"{TOLD[name]} of token {at} is {float(given[at]):g}"
            raise TraceError(f"{place}: {told}, expected {expected}")
    return values


def _array(
    record: dict[str, Any], name: str, dtype: npt.DTypeLike, place: str, size: int | None = None
) -> npt.NDArray[Any]:
    try:
        given = np.asarray(record[name])
        with np.errstate(invalid="ignore", over="ignore"):  # said below
            array = given.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"{place}: {name} holds no numbers: {error}") from error
    if given.ndim == 1 and np.issubdtype(dtype, np.integer):
        other = array != given
        if other.any():
            at = int(other.argmax())
            raise TraceError(
                f"{place}: {name}[{at}] is {given[at]}, expected a whole number in {array.dtype}"
            )
    if array.ndim != 1 or (size is not None and len(array) != size):
        expected = "one dimension" if size is None else f"{size} values, as input_ids has"
        raise TraceError(f"{place}: {name} has shape {array.shape}, expected {expected}")
    return array


def _weights(
    record: dict[str, Any], ids: npt.NDArray[np.int32], held: npt.NDArray[np.bool_], place: str
) -> npt.NDArray[np.float32]:
    """Loss weight of every token: from `loss_mask`, else `labels`. Advantages are kept apart."""
    size = len(ids)
    if record.get("loss_mask") is not None:
        weight = _array(record, "loss_mask", np.float32, place, size)
        odd = held & ~((weight >= 0) & np.isfinite(weight))
        if odd.any():
            at = int(odd.argmax())
            raise TraceError(
                f"{place}: the loss weight of token {at} is {weight[at]}, expected one from 0 on; "
                "negative ones, as custom losses send, are no share of a likelihood"
            )
    elif record.get("labels") is not None:
        labels = _array(record, "labels", np.int64, place, size)
        wrong = held & (labels != IGNORED) & (labels != ids)
        if wrong.any():
            raise TraceError(
                f"{place}: labels[{int(wrong.argmax())}] is not the token at its place; expected "
                f"labels aligned with input_ids, {IGNORED} where there is no loss"
            )
        weight = (labels != IGNORED).astype(np.float32)
    else:
        raise TraceError(f"{place}: expected loss_mask or labels, to know what is trained")
    return weight


def _visibility(
    record: dict[str, Any], mask: npt.NDArray[Any], size: int, place: str
) -> tuple[Longs, Longs]:
    """Until when each key is seen, and where its document starts."""
    if mask.ndim > 1:
        return _from_matrix(mask.reshape(mask.shape[-2:]), size, place)
    if record.get("visible_until") is not None:
        until = _array(record, "visible_until", np.int64, place, size)
        if ((until <= np.arange(size)) | (until > size)).any():
            raise TraceError(f"{place}: visible_until must lie behind each token and within {size}")
        return until, np.zeros(size, dtype=np.int64)
    bounds = np.array([0, size])
    if record.get("cu_seqlens") is not None:
        bounds = _array(record, "cu_seqlens", np.int64, place)
        ends = bounds[[0, -1]].tolist() if len(bounds) > 1 else []
        if ends != [0, size] or (np.diff(bounds) < 0).any():
            raise TraceError(f"{place}: cu_seqlens must rise from 0 to {size}, found {bounds}")
    elif record.get("document_ids") is not None:
        documents = _array(record, "document_ids", np.int64, place, size)
        bounds = np.append(np.flatnonzero(np.diff(documents, prepend=documents[:1] - 1)), size)
    length = np.diff(bounds)
    return np.repeat(bounds[1:], length), np.repeat(bounds[:-1], length)


def _from_matrix(mask: npt.NDArray[Any], size: int, place: str) -> tuple[Longs, Longs]:
    """The interval ends of a (T, T) mask, boolean or additive; refuses what they cannot say."""
    seen = mask if mask.dtype == bool else mask >= 0 if (mask < 0).any() else mask > 0
    if seen.shape != (size, size):
        raise TraceError(
            f"{place}: attention_mask has shape {mask.shape}, expected {size} x {size}"
        )
    index = np.arange(size)
    below = index[:, None] >= index
    gaps = ~seen & below
    first_gap = np.where(gaps.any(axis=0), gaps.argmax(axis=0), size)
    expressed = below & (index[:, None] < first_gap)
    if (expressed != (seen & below)).any() or (seen & ~below).any():
        raise TraceError(
            f"{place}: attention_mask lets a key be seen, hidden and seen again, or shows later "
            "keys; expected each key to be seen from its place on until some query"
        )
    return first_gap.astype(np.int64), np.zeros(size, dtype=np.int64)
