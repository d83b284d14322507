"""Branch samples under the names of trainers: verl, TRL, prime-rl.

All are plain causal sequences with a mask of what is trained, so each sampled token is trained
once, in a context that its call really had. The fields are those that `mwviz.batch_rows` reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mwviz.errors import TraceError

Sample = dict[str, Any]


def shaped(sample: Sample, shape: str) -> Sample:
    """A sample of `mwviz.exports.training.branch_samples` as a trainer names it.

    Raises:
        TraceError: A token counts more than once, which a mask cannot say.
    """
    weights = set(sample["loss_mask"])
    if not weights <= {0.0, 1.0}:
        raise TraceError(
            f"rollout {sample['rollout']!r}, branch {sample['branch']}: a token was sampled by "
            f"{max(weights):.0f} calls, expected one for a mask of 0 and 1; take --as branches"
        )
    return SHAPES[shape](sample)


def _halves(sample: Sample) -> tuple[int, list[int]]:
    """Where the response begins, and its mask."""
    mask = [int(weight) for weight in sample["loss_mask"]]
    start = mask.index(1) if 1 in mask else len(mask)
    return start, mask[start:]


def _filled(sample: Sample, name: str, start: int, *, blank: float) -> list[float] | None:
    """Values of tokens from a place on, `blank` where none was sampled, as trainers fill them.

    None if that of a sampled token was not recorded: a number would pass for one.
    """
    values, weights = sample[name][start:], sample["loss_mask"][start:]
    if any(value is None and weight for value, weight in zip(values, weights, strict=True)):
        return None
    return [blank if value is None else value for value in values]


def _origin(sample: Sample) -> Sample:
    """Where the ids come from; `rendering` is `recorded` for those that were sampled."""
    return {key: sample[key] for key in ("rollout", "tokenizer", "rendering")}


def _verl(sample: Sample) -> Sample:
    """The fields of verl's `AgentLoopOutput`."""
    start, mask = _halves(sample)
    return {
        "prompt_ids": sample["input_ids"][:start],
        "response_ids": sample["input_ids"][start:],
        "response_mask": mask,
        "response_logprobs": _filled(sample, "logprobs", start, blank=0.0),
        "reward_score": sample["reward"],
        "metrics": {},
        "extra_fields": {"branch": sample["branch"], **_origin(sample)},
    }


def _trl(sample: Sample) -> Sample:
    """What a rollout function of TRL returns for one sequence."""
    start, mask = _halves(sample)
    return {
        "prompt_ids": sample["input_ids"][:start],
        "completion_ids": sample["input_ids"][start:],
        "env_mask": mask,
        "logprobs": _filled(sample, "logprobs", start, blank=0.0),
        "reward": sample["reward"],
        **_origin(sample),
    }


def _prime_rl(sample: Sample) -> Sample:
    """Fields of prime-rl's `TrainingSample`; `env_name` and advantages are the trainer's to say."""
    return {
        "token_ids": sample["input_ids"],
        "mask": [weight > 0 for weight in sample["loss_mask"]],
        "logprobs": _filled(sample, "logprobs", 0, blank=0.0),
        "temperatures": _filled(sample, "temperatures", 0, blank=1.0),
        "reward": sample["reward"],
        **_origin(sample),
    }


SHAPES: dict[str, Callable[[Sample], Sample]] = {
    "verl": _verl,
    "trl": _trl,
    "prime-rl": _prime_rl,
}
