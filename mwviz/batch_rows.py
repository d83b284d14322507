"""What trainers call the arrays of a batch, under our own names.

Most trainers keep the loss mask, log-probabilities and advantages of the response only, behind the
ids of prompt and response:

- TRL's batch (late 2026): `prompt_ids, prompt_mask, completion_ids, completion_mask, tool_mask,
  old_per_token_logps, sampling_per_token_logps, advantages` (one a sequence); its rollout functions
  return `prompt_ids, completion_ids, logprobs, env_mask`.
- verl's `DataProto`: `input_ids` of both, `response_mask, old_log_probs, rollout_log_probs,
  advantages`; its agent loops: `prompt_ids, response_ids, response_mask, response_logprobs`.
- SkyRL's generators: `prompt_token_ids, response_ids, loss_masks, rollout_logprobs`.
- slime's samples: `tokens, response_length, loss_mask, rollout_log_probs`.
- A Tinker datum: `model_input`, and one token further `loss_fn_inputs` with `target_tokens`,
  `weights` or `mask`, `logprobs`, `advantages`.
- prime-rl's first samples: split like TRL's, but each half's mask tells what is trained, with
  `completion_logprobs`; later ones and its token export call the whole sequence `token_ids`.
- AReaL's tensors have our names, but their `logprobs`, next to `versions`, are those of sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from mwviz.errors import TraceError

Arrays = Mapping[str, Any]
IDS = ("input_ids", "token_ids", "tokens", "prompt_ids", "prompt_token_ids", "model_input")
"""What the ids of a sequence, or its first ones, are called."""
WHOLE = {
    "token_ids": "input_ids",
    "trainer_logprobs": "logprobs",
    "inference_logprobs": "sampled_logprobs",
    "prox_logp": "logprobs",
}
"""Arrays over a whole sequence, and our names for them."""
HALVES = (
    ("prompt_ids", "completion_ids"),
    ("prompt_ids", "response_ids"),
    ("prompt_token_ids", "response_ids"),
)
TRAINED = ("completion_mask", "tool_mask", "env_mask", "response_mask", "loss_mask", "loss_masks")
"""Masks over a response: what is trained is in all of them."""
TRAINERS = ("old_per_token_logps", "old_log_probs")
SAMPLED = (
    "sampling_per_token_logps",
    "rollout_log_probs",
    "rollout_logprobs",
    "response_logprobs",
    "completion_logprobs",
    "logprobs",
)
ADVANTAGES = ("advantages",)
BOUNDS = "cu_seqlens"
"""Where the documents of one row begin and end: as many values as it has documents, and one."""
OWN = (
    *("input_ids", "position_ids", "attention_mask", "document_ids", "loss_mask", "labels"),
    *("visible_until", "predicted_from", "logprobs", "sampled_logprobs", "advantages"),
)
"""Our names."""
READ = {
    *OWN,
    *WHOLE,
    *TRAINED,
    *TRAINERS,
    *SAMPLED,
    *ADVANTAGES,
    *(name for half in HALVES for name in half),
}
READ |= {BOUNDS, "tokens", "mask", "prompt_mask", "versions"}
"""Arrays that mean something here; any other is left alone."""


def rows(record: Arrays, place: str) -> Iterator[Arrays]:
    """The sequences of a record: itself, or one for each row if its ids are (B, T).

    Raises:
        TraceError: an array that means something has other rows than the ids.
    """
    ids = next((record[name] for name in IDS if name in record), ())
    if not isinstance(ids, list | np.ndarray) or not len(ids) or np.ndim(ids[0]) == 0:
        yield record
        return
    arrays = {n: a for n, a in record.items() if isinstance(a, list) or np.ndim(a)}
    flat = BOUNDS in arrays and not any(np.ndim(bound) for bound in arrays[BOUNDS])
    if flat:  # it speaks of the only row
        arrays[BOUNDS] = [arrays[BOUNDS]]
    for name, array in arrays.items():
        if name in READ and len(array) != len(ids):
            raise TraceError(
                f"{place}: {name} has {len(array)} rows, expected {len(ids)}, as the ids have"
            )
    for row in range(len(ids)):
        yield {name: array[row] for name, array in arrays.items() if len(array) == len(ids)}


def named_rollout(record: Arrays) -> str | None:
    """The rollout that a record says it is of, as mwviz's exports do; None if it says none."""
    extra = record.get("extra_fields")
    for place in (record, extra if isinstance(extra, Mapping) else {}):
        if isinstance(name := place.get("rollout"), str):
            return name
    return None


def named(record: Arrays, place: str) -> dict[str, Any]:
    """One sequence under our names; as it is if it has them.

    Raises:
        TraceError: its arrays do not fit each other.
    """
    halves = next((half for half in HALVES if record.keys() >= set(half)), None)
    if halves:
        return _halved(record, *halves, place)
    if "model_input" in record:
        return _datum(record, place)
    if "tokens" in record and "response_length" in record:
        return _behind(record, _ids(record, "tokens", place), record["response_length"], place)
    if "input_ids" in record and "response_mask" in record and "loss_mask" not in record:
        over = len(_array(record, "response_mask", place))
        laid = _behind(record, _ids(record, "input_ids", place), over, place)
        kept = ("attention_mask", "position_ids")
        return laid | {name: record[name] for name in kept if name in record}
    return _whole(record)


def _whole(record: Arrays) -> dict[str, Any]:
    """A sequence whose arrays are as long as its ids."""
    ours = {**record}
    sample = "token_ids" in record and "mask" in record
    if sample:
        ours["loss_mask"] = record["mask"]
    if (sample or "versions" in record) and "logprobs" in record:
        ours["sampled_logprobs"] = ours.pop("logprobs")
    for theirs, name in WHOLE.items():
        if theirs in record:
            ours.setdefault(name, record[theirs])
    return ours


def _halved(record: Arrays, first: str, second: str, place: str) -> dict[str, Any]:
    """Prompt and response together, with what is padding or trained in the prompt."""
    asked, answered = _ids(record, first, place), _ids(record, second, place)
    laid = _behind(record, [*asked, *answered], len(answered), place)
    if record.get("prompt_mask") is not None:
        mask = _values(record, "prompt_mask", len(asked), place)
        if "completion_logprobs" in record:
            laid["loss_mask"][: len(asked)] = mask
        else:
            filled = np.ones(len(answered), dtype=np.float32)
            if record.get("completion_mask") is not None:
                filled = _values(record, "completion_mask", len(answered), place)
            laid["attention_mask"] = np.concatenate((mask, filled))
    return laid


def _datum(record: Arrays, place: str) -> dict[str, Any]:
    """A Tinker datum: the ids and, at each, what is asked of the next one."""
    try:
        chunks = [chunk["tokens"] for chunk in record["model_input"]["chunks"]]
        told = {
            name: np.asarray(value["data"] if isinstance(value, Mapping) else value)
            for name, value in record["loss_fn_inputs"].items()
        }
        tokens = np.concatenate([np.asarray(chunk) for chunk in chunks if len(chunk)])
        asked = told["target_tokens"]
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(
            f"{place}: expected model_input with chunks of tokens and loss_fn_inputs with "
            f"target_tokens, as a Tinker datum has: {error!r}"
        ) from error
    fed = _ids({"tokens": tokens}, "tokens", place)
    targets = _ids({"target_tokens": asked}, "target_tokens", place)
    if len(targets) != len(fed) or not fed:
        raise TraceError(f"{place}: {len(targets)} target_tokens for {len(fed)} tokens")
    trained = next((told[name] for name in ("mask", "weights") if name in told), None)
    if trained is None:
        trained = told.get("advantages", np.ones(len(fed))) != 0
    laid = _behind({**told, "loss_mask": trained}, [*fed, targets[-1]], len(fed), place)
    wrong = (np.array(targets[:-1]) != fed[1:]) & (laid["loss_mask"][1:-1] != 0)
    if wrong.any():
        raise TraceError(
            f"{place}: target_tokens[{int(wrong.argmax())}] is not the next token; expected the "
            "input shifted by one wherever it is trained"
        )
    return laid


def _behind(record: Arrays, ids: list[int], over: object, place: str) -> dict[str, Any]:
    """The arrays over the last `over` tokens, laid out over all of them."""
    size = index(over) if hasattr(over, "__index__") else -1
    if not 0 <= size <= len(ids):
        raise TraceError(f"{place}: a response of {over!r} tokens, expected 0 to {len(ids)}")
    trained = np.ones(size, dtype=np.float32)
    for name in TRAINED:
        if record.get(name) is not None:
            trained = trained * _values(record, name, size, place)
    laid = {"input_ids": ids, "loss_mask": _padded(trained, len(ids), 0.0)}
    arrays = (("logprobs", TRAINERS), ("sampled_logprobs", SAMPLED), ("advantages", ADVANTAGES))
    for ours, names in arrays:
        found = next((name for name in names if record.get(name) is not None), None)
        if found is not None:
            laid[ours] = _padded(_told(record, found, size, place), len(ids), np.nan)
    return laid


def _told(record: Arrays, name: str, over: int, place: str) -> npt.NDArray[Any]:
    """(over,): one value a token; null stays where a list has it, and stands for none."""
    given = record[name]
    null = [at for at, one in enumerate(given) if one is None] if isinstance(given, list) else []
    if not null:
        return _values(record, name, over, place)
    known = [np.nan if one is None else one for one in given]
    told = _values({name: known}, name, over, place).astype(object)
    told[null] = None
    return told


def _ids(record: Arrays, name: str, place: str) -> list[int]:
    ids = _array(record, name, place)
    if len(ids) and ids.dtype.kind not in "iu":
        raise TraceError(f"{place}: {name} holds no token ids")
    return [int(token) for token in ids]


def _values(record: Arrays, name: str, over: int, place: str) -> npt.NDArray[np.float32]:
    """float32 (over,): one value a token; one for all of them is repeated."""
    values = _array(record, name, place, scalar=True)
    if values.shape not in ((), (over,)):
        raise TraceError(f"{place}: {name} has shape {values.shape}, expected {over} values")
    return np.broadcast_to(values.astype(np.float32), (over,))


def _array(record: Arrays, name: str, place: str, *, scalar: bool = False) -> npt.NDArray[Any]:
    try:
        array = np.asarray(record[name])
    except ValueError as error:
        raise TraceError(f"{place}: {name} is no array: {error}") from error
    if array.size and array.dtype.kind not in "biuf":
        raise TraceError(f"{place}: {name} holds no numbers")
    if array.ndim != 1 and not (scalar and array.ndim == 0):
        raise TraceError(f"{place}: {name} has shape {array.shape}, expected one dimension")
    return array


def _padded(values: npt.NDArray[Any], size: int, filler: float) -> npt.NDArray[Any]:
    return np.concatenate((np.full(size - len(values), filler, dtype=np.float32), values))
