"""Rows of slime, prime-rl, TRL, SkyRL and AReaL trainers: one sequence with a mask, many a rollout.

None of them writes such JSON by itself, but the fields are the trainers' own:
prime-rl's `TrainingSample` (src/prime_rl/transport/types.py; on the wire arrays of MessagePack) was
`prompt_ids, prompt_mask, completion_ids, completion_mask, completion_logprobs` until mid 2026
(commit e86de6c, later with `completion_temperatures`), then one sequence `token_ids, mask,
logprobs, temperatures, env_name`. AReaL's `to_tensor_dict` (areal/experimental/openai/types.py,
commit 5a69f4d) gives `input_ids, loss_mask, logprobs, versions, attention_mask, rewards`, with a
batch dimension of one; trajectories of several rows are padded (areal/infra/workflow_executor.py,
commit 3c1f573), `versions` are -1 where nothing was sampled. MemexRL's segments are slime samples
that share `metadata.episode_uid`; a slime `Sample` (slime/utils/types.py, commit 7985bf2) names the
weights of all its calls together. TRL's rollout functions return `prompt_ids, completion_ids,
logprobs` and `env_mask` (its documentation of `rollout_func`). SkyRL's `GeneratorOutput`:
skyrl_train/generators/base.py of NovaSky-AI/SkyRL, commit 297e467.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mwviz.formats.fields import (
    Json,
    Object,
    child,
    count,
    label,
    members,
)
from mwviz.formats.records import Record, Records
from mwviz.formats.row_logs import any_name, batch_rows, having, read_rows, row_ids
from mwviz.formats.token_rows import (
    TokenRow,
    marks,
    row_logprobs,
    token_row,
)
from mwviz.rollout import Call, Rollout

SLIME = frozenset({"tokens", "response_length"})
PRIME = frozenset({"token_ids", "mask"})
PRIME_SPLIT = frozenset({"prompt_ids", "completion_ids", "completion_mask"})
TRL = frozenset({"prompt_ids", "completion_ids", "env_mask"})
SKYRL = frozenset({"prompt_token_ids", "response_ids"})
AREAL = frozenset({"input_ids", "loss_mask", "logprobs"})
AREAL_MORE = ("versions", "attention_mask", "rewards")
TRL_LISTS = {"logprobs": "logprobs", "reward": "reward"}
SKYRL_LISTS = {
    "loss_masks": "loss_mask",
    "rewards": "reward",
    "rollout_logprobs": "rollout_logprobs",
    "trajectory_ids": "trajectory_id",
}
"""Fields of a batch, and what one row's share of them is called."""


def detects_slime(head: Sequence[Record]) -> bool:
    """Whether a record is a sample with its tokens."""
    return any(_slime_samples(record.value) for record in head)


def reads_slime(records: Records) -> list[Rollout]:
    """One rollout of all samples with the same rollout or index."""
    return read_rows(records, _slime_samples, _slime_row, _slime_name, _slime_call)


def detects_prime(head: Sequence[Record]) -> bool:
    """Whether a record is a training sample of a branch."""
    return any(having(record.value, PRIME, PRIME_SPLIT) for record in head)


def reads_prime(records: Records) -> list[Rollout]:
    """One rollout of all branches with the same example or rollout."""
    return read_rows(records, lambda v: having(v, PRIME, PRIME_SPLIT), _prime_row, any_name)


def detects_trl(head: Sequence[Record]) -> bool:
    """Whether a record is what a rollout function returns, a batch or one row of it."""
    return any(having(record.value, TRL) for record in head)


def reads_trl(records: Records) -> list[Rollout]:
    """One rollout of all rows with the same name."""
    return read_rows(records, lambda v: batch_rows(v, TRL, TRL_LISTS), _trl_row, any_name)


def detects_skyrl(head: Sequence[Record]) -> bool:
    """Whether a record is a generator's batch or one row of it."""
    return any(having(record.value, SKYRL) for record in head)


def reads_skyrl(records: Records) -> list[Rollout]:
    """One rollout of all rows with the same trajectory id."""
    return read_rows(records, lambda v: batch_rows(v, SKYRL, SKYRL_LISTS), _skyrl_row, _skyrl_name)


def detects_areal(head: Sequence[Record]) -> bool:
    """Whether a record is a trajectory's tensors as lists."""
    return any(having(record.value, AREAL) for record in head)


def reads_areal(records: Records) -> list[Rollout]:
    """One rollout of all rows with the same name."""
    return read_rows(records, _areal_rows, _areal_row, any_name, _areal_call)


def _slime_samples(value: Json) -> list[Object]:
    """The samples of a dump, or the one that the record is."""
    inner = value.get("samples") if isinstance(value, dict) else None
    given = inner if isinstance(inner, list) else [value]
    return [sample for one in given for sample in having(one, SLIME)]


def _slime_row(sample: Object) -> TokenRow:
    ids, size = row_ids(sample, "tokens"), count(sample, "response_length") or 0
    mask = marks(sample, "loss_mask")
    if mask is None:
        mask = np.ones(min(size, len(ids)), dtype=np.bool_)
    return token_row(ids, mask, row_logprobs(sample, "rollout_log_probs"))


def _slime_call(sample: Object, call: Call) -> Call:
    """The call with the versions of the weights that sampled the row it is in."""
    versions = members(sample, "weight_versions") or []
    named = dict.fromkeys(str(v) for v in versions if isinstance(v, str | int))
    return replace(call, weights=", ".join(named)) if named else call


def _slime_name(sample: Object) -> str | None:
    metadata = child(sample, "metadata") or {}
    for place in (sample, metadata):
        for key in ("rollout_id", "session_id", "episode_uid"):
            if found := label(place, key):
                return found
    return label(sample, "index")


def _prime_row(sample: Object) -> TokenRow:
    if sample.keys() >= PRIME:
        ids, mask = row_ids(sample, "token_ids"), marks(sample, "mask")
        known = row_logprobs(sample, "logprobs")
        return token_row(ids, np.empty(0, np.bool_) if mask is None else mask, known)
    names = {"mask": "completion_mask", "logprobs": "completion_logprobs"}
    return _halves(sample, "prompt_ids", "completion_ids", **names)


def _trl_row(row: Object) -> TokenRow:
    return _halves(row, "prompt_ids", "completion_ids", mask="env_mask", logprobs="logprobs")


def _skyrl_row(row: Object) -> TokenRow:
    return _halves(
        row, "prompt_token_ids", "response_ids", mask="loss_mask", logprobs="rollout_logprobs"
    )


def _halves(row: Object, prompt: str, reply: str, *, mask: str, logprobs: str) -> TokenRow:
    """A row whose prompt and reply stand apart; without a mask all of the reply is trained."""
    before, after = row_ids(row, prompt), row_ids(row, reply)
    trained = marks(row, mask)
    trained = np.ones(len(after), dtype=np.bool_) if trained is None else trained
    ids = np.concatenate((before, after), dtype=np.int32)
    return token_row(ids, trained, row_logprobs(row, logprobs))


def _skyrl_name(row: Object) -> str | None:
    given = row.get("trajectory_id")
    if isinstance(given, dict):
        return f"{label(given, 'instance_id')}_{label(given, 'repetition_id')}"
    return label(row, "trajectory_id")


def _areal_rows(value: Json) -> list[Object]:
    """The rows of a padded batch, or the one that the record is, without their padding."""
    if not having(value, AREAL) or not isinstance(value, dict):
        return []
    batch = members(value, "input_ids") or []
    if not batch or not isinstance(batch[0], list):
        return [value]
    found: list[Object] = []
    for at in range(len(batch)):
        row: Object = {key: v for key, v in value.items() if not isinstance(v, list)}
        for key in (*AREAL, *AREAL_MORE):
            listed = value.get(key)
            row[key] = listed[at] if isinstance(listed, list) and at < len(listed) else None
        kept = marks(row, "attention_mask")
        if kept is not None:
            row |= {key: _unpadded(row[key], kept) for key in (*AREAL, "versions")}
        row["reward"] = row.pop("rewards")
        found.append(row)
    return found


def _unpadded(values: Json, kept: npt.NDArray[np.bool_]) -> Json:
    if not isinstance(values, list) or len(values) != len(kept):
        return values
    return [value for value, keep in zip(values, kept, strict=True) if keep]


def _areal_row(row: Object) -> TokenRow:
    ids, mask = row_ids(row, "input_ids"), marks(row, "loss_mask")
    known = row_logprobs(row, "logprobs")
    return token_row(ids, np.empty(0, np.bool_) if mask is None else mask, known)


def _areal_call(row: Object, call: Call) -> Call:
    """The call with the version of the weights that sampled it; several are named from first on."""
    versions = row.get("versions")
    if not isinstance(versions, list) or call.prompt_ids is None or call.completion_ids is None:
        return call
    start = len(call.prompt_ids)
    used = versions[start : start + len(call.completion_ids)]
    named = dict.fromkeys(str(version) for version in used if isinstance(version, int))
    return replace(call, weights=", ".join(named)) if named else call
