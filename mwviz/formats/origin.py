"""Whose token ids a training row holds, as mwviz's own exports say it.

They name the tokenizer, and the `rendering` where the ids are not those that were sampled but a
rendering of messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mwviz.formats.fields import Object, label, shown
from mwviz.rollout import Call, Rollout

RECORDED, UNKNOWN = "recorded", "unknown"
"""What exports call ids that were sampled, and a tokenizer that is not known."""


class Origin(NamedTuple):
    """Where the ids of a row come from."""

    tokenizer: str | None = None
    rendering: str | None = None
    """None if the ids were sampled, or nothing says otherwise."""

    @property
    def doubts(self) -> Iterator[str]:
        """What a reader has to know of a call of such a row."""
        if self.rendering:
            yield (
                f"its ids were rendered from messages ({shown(self.rendering)}), not sampled: the "
                "log-probabilities beside them are not used"
            )

    def mark(self, call: Call) -> Call:
        """The call, told apart from one whose ids were sampled."""
        return replace(call, tokens="rendered", logprobs=None) if self.rendering else call


def read_origin(row: Object) -> Origin:
    """What a row says of its ids.

    Raises:
        FieldError: It does not say it in words.
    """
    rendering, tokenizer = label(row, "rendering"), label(row, "tokenizer")
    return Origin(
        None if tokenizer == UNKNOWN else tokenizer,
        None if rendering == RECORDED else rendering,
    )


def with_tokenizers(rollouts: Sequence[Rollout], origins: Mapping[str, Origin]) -> list[Rollout]:
    """The rollouts with the tokenizers that their rows name."""
    return [
        replace(rollout, tokenizer=origins[rollout.id].tokenizer)
        if rollout.id in origins
        else rollout
        for rollout in rollouts
    ]
