"""Text that a simulated harness writes, and the size of any message in tokens.

Sizes are those of the encoding used for structure. Summaries need no model: they are made of
snippets of what they stand for, each too short to count as a copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mwviz.decoder import Decoder
from mwviz.encoding import NO_IDS, Encoding
from mwviz.rollout import Call, Mark, Message, Part, Rollout
from mwviz.runs import WINDOW
from mwviz.tokens import encode

LABEL = "Simulated summary:"
GAP = " | "
SNIPPET = WINDOW - 3
"""Tokens of one snippet: with a gap on each side it is shorter than a run that counts."""
PACE = SNIPPET + 2
"""Tokens that a snippet and its gap need."""
SHARE = 2
"""A summary has at most one token for every two that left."""


class Writer:
    """Counts tokens and writes stubs and summaries in the structure's own encoding."""

    def __init__(self, tokenizer: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._tokens: dict[bytes, int] = {}
        self.name = self._encode([Call("0", prompt=())]).tokenizer

    def tokens(self, message: Message) -> int:
        """Tokens of one message, its role header included."""
        key = message.content_key
        if key not in self._tokens:
            self._count([message])
        return self._tokens[key]

    def learn(self, messages: Sequence[Message]) -> None:
        """Counts many messages at once."""
        self._count([m for m in messages if m.content_key not in self._tokens])

    def opening(self, completion: tuple[Message, ...] | None) -> int:
        """Tokens of a completion's header, which the prompt ends with."""
        call = Call("0", prompt=(), completion=completion)
        return self._encode([call]).calls[0].prompt_length

    def stub(self, message: Message, text: str) -> Message:
        """A tool's answer with its text replaced; what pairs it with its call stays."""
        parts = [
            replace(part, text=text) if part.kind == "tool_result" else part
            for part in message.parts
        ]
        if not any(part.kind == "tool_result" for part in parts):
            parts = [Part("text", text)]
        return replace(message, parts=tuple(parts), id=None, mark="placeholder", line=None)

    def summary(self, gone: Sequence[Message], longest: int, *, role: str) -> Message:
        """A fixed-length extract: short snippets, evenly spaced over what left."""
        snippets = self._snippets(gone, longest)
        message = _spoken(role, LABEL, "summary")
        while snippets:
            message = _spoken(role, f"{LABEL} {GAP.join(snippets)}", "summary")
            if self.tokens(message) <= longest:
                return message
            snippets.pop()
        return message

    def note(self, text: str) -> Message:
        """What the harness says to the agent."""
        return _spoken("user", text, "reminder")

    def cut(self, message: Message, tokens: int) -> Message:
        """A tool's answer with its middle left out: `tokens` stay, half from each end."""
        encoding = self._encode([Call("0", prompt=(), completion=(_spoken("user", message.text),))])
        ids, decoder = encoding.calls[0].completion, Decoder(encoding, tokenizer=self._tokenizer)
        half = max(tokens // 2, 1)
        ends = [decoder.text(ids[:half]), decoder.text(ids[-half:])]
        return self.stub(message, GAP.join(end.replace("\ufffd", "") for end in ends))

    def _snippets(self, gone: Sequence[Message], longest: int) -> list[str]:
        texts = [message.text.removeprefix(LABEL) for message in gone]
        calls = [Call("0", prompt=(), completion=(_spoken("user", text),)) for text in texts]
        encoding = self._encode(calls)
        ids = np.concatenate([NO_IDS, *(call.completion for call in encoding.calls)])
        decoder = Decoder(encoding, tokenizer=self._tokenizer)
        count = max(min(longest, len(ids) // SHARE) // PACE, 1)
        stride = max(len(ids) // count, 1)
        starts = np.arange(count, dtype=np.int64) * stride + max(stride - SNIPPET, 0) // 2
        pieces = (decoder.text(ids[start : start + SNIPPET]) for start in starts)
        words = (" ".join(piece.replace("\ufffd", "").split()) for piece in pieces)
        return [snippet for snippet in words if snippet]

    def _count(self, messages: Sequence[Message]) -> None:
        (call,) = self._encode([Call("0", prompt=tuple(messages))]).calls
        for message, span in zip(messages, call.spans, strict=True):
            self._tokens[message.content_key] = span.end - span.start

    def _encode(self, calls: Sequence[Call]) -> Encoding:
        return encode(Rollout("sizes", tuple(calls)), self._tokenizer)


def _spoken(role: str, text: str, mark: Mark | None = None) -> Message:
    return Message(role, (Part("text", text),), mark=mark)
