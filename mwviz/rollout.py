"""What was recorded of an agent episode: messages, calls, rollouts. Nothing here is derived.

Arrays are one-dimensional and as long as the prompt or completion they describe. `None` always
means "not recorded"; it is never a default for zero or empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

PartKind = Literal["text", "reasoning", "tool_call", "tool_result", "image", "file", "other"]
Mark = Literal["summary", "placeholder", "reminder"]
ContentFidelity = Literal["exact", "rebuilt", "partial", "unknown"]
TokenFidelity = Literal["recorded", "rendered"]
Semantics = Literal["re_prefill", "kv_orig", "kv_reindex", "unknown"]


@dataclass(frozen=True, slots=True)
class Part:
    """One block of a message, as text the model could read."""

    kind: PartKind
    text: str
    """Plain text; a tool call's arguments as canonical JSON; "" for content that is not text."""
    name: str | None = None
    """Tool name of a call; media type of what is not text, with a digest if the log holds it."""
    id: str | None = None
    """Tool-call id that pairs a call with its result."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt or completion; calls that repeat a message share one object."""

    role: str
    """`system`, `user`, `assistant` or `tool`; other roles are kept as the log wrote them."""
    parts: tuple[Part, ...]
    id: str | None = None
    """Given by the log. Messages with one id are the same message, whatever their content."""
    name: str | None = None
    mark: Mark | None = None
    """What the log or its format says the message is; None if it says nothing."""
    line: int | None = None
    """1-based line of the trace file the message was read from."""

    @property
    def text(self) -> str:
        """All parts joined by newlines, for display and search."""
        return "\n".join(part.text for part in self.parts)

    @property
    def content_key(self) -> bytes:
        """Digest of role and content: equal for messages that say the same, whatever their id."""
        digest = hashlib.blake2b(digest_size=16)
        for field_text in (self.role, self.name or "", *(t for p in self.parts for t in _texts(p))):
            encoded = field_text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.digest()


def _texts(part: Part) -> tuple[str, str, str, str]:
    return part.kind, part.text, part.name or "", part.id or ""


class Span(NamedTuple):
    """Which message the tokens `[start, end)` of a call's prompt + completion belong to."""

    start: int
    end: int
    message: str
    """Identity of the message within the rollout: equal strings are the same message."""
    role: str
    kind: str
    """What the message is (`system`, `act`, `tool_output`, `summary`, ...); "" if not known."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts that the provider reported for one call; None where it reported none."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    """Prompt tokens served from cache: a lower bound on the prefix shared with an earlier call."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Something that was in a prompt but is not in the trace."""

    why: str
    after: str | None = None
    """Message id it stood behind; None if its place is not known."""
    tokens: int | None = None
    """Estimated size in tokens; None if nothing bounds it."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What the harness said it did before a call: labels a junction, never makes one."""

    kind: str
    """A junction kind of the theory (`summary`, `placeholder`, `fold`, `restore`, `retry`, ...)."""
    detail: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One model request: the exact prompt it was sent and the completion it sampled."""

    id: str
    prompt: Sequence[Message] | None = None
    """Read as a tuple; calls that continue one another may share their start: `mwviz.sharing`."""
    completion: tuple[Message, ...] | None = None
    prompt_ids: Ints | None = None
    """int32 (P,): recorded token ids of the prompt."""
    completion_ids: Ints | None = None
    """int32 (O,): recorded token ids of the completion."""
    spans: tuple[Span, ...] | None = None
    """Messages within `prompt_ids + completion_ids`, where the log knows them; may leave gaps."""
    logprobs: Floats | None = None
    """float32 (O,): log-probability of each completion token when sampled, in nats; NaN = none."""
    lineage: str | None = None
    """Agent the call belongs to, as the log names it; None leaves it to `mwviz.lineages`."""
    usage: Usage | None = None
    temperature: float | None = None
    model: str | None = None
    weights: str | None = None
    """Version of the weights that sampled the completion."""
    finish: str | None = None
    time: float | None = None
    """Start of the call in seconds since the epoch."""
    reward: float | None = None
    content: ContentFidelity = "exact"
    tokens: TokenFidelity = "recorded"
    holes: tuple[Hole, ...] = ()
    hints: tuple[Hint, ...] = ()
    semantics: Semantics | None = None
    """Overrides the rollout's semantics for the junction before this call."""
    kept: tuple[tuple[int, int], ...] | None = None
    """`[start, end)` ranges of the lineage's context before (prompt + completion, in tokens) whose
    entries stayed in the cache: one after another they start `prompt_ids`, and all behind is new.
    """
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Damage:
    """One place where a trace file was broken, and what was saved from it."""

    line: int
    """1-based physical line; 0 if the damage has no line (a whole file)."""
    bytes: int
    """Bytes dropped."""
    what: str
    kept: str
    """What was saved of the line, in words (`1 record`, `nothing`)."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a rollout was read from."""

    format: str
    path: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """The ordered calls of one agent episode, sub-agents included, oldest first."""

    id: str
    calls: tuple[Call, ...]
    semantics: Semantics = "unknown"
    """How the cache was treated at junctions; unknown is taken as re-prefill and said so."""
    source: Source = Source("memory")
    tokenizer: str | None = None
    """Name of the tokenizer that made the recorded ids; None if the log does not say."""
    reward: float | None = None
    damage: tuple[Damage, ...] = ()
    warnings: tuple[str, ...] = ()
    """Doubts of the reader, each a sentence a user can act on."""
    meta: dict[str, str] = field(default_factory=dict)
