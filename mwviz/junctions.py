"""Where a prompt does not continue its lineage's previous context, and what kind of change it is.

Kinds and the order of their rules: the theory, section 1. Starred kinds there are `NO_EVICTION`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from mwviz.changes import SPEAKERS, Change, Unit, change_at, messages_of, same_start
from mwviz.encoding import Encoding
from mwviz.rollout import Message, Rollout, Semantics
from mwviz.semantics import said_of
from mwviz.tree import EvictionTree
from mwviz.trie import Ints, Longs

if TYPE_CHECKING:
    import pandas as pd

NO_EVICTION = frozenset({"retry", "retokenise", "reserialise", "header_change", "fork"})
"""Kinds in which no harness removed anything: listed, but not counted as evictions."""
UNEXPLAINED_DROP = 3_000
"""Tokens by which reported prompt size must fall, with no change in the log, to be a junction."""

Evidence = Literal["recorded", "derived", "usage"]
Decode = Callable[[Ints], str]
COLUMNS = (
    *("call", "kind", "depth", "evicted", "inserted", "retained"),
    *("tokens_before", "tokens_after", "evidence", "eviction", "semantics"),
)
"""Of the table of junctions."""


@dataclass(frozen=True, slots=True, eq=False)
class Junction:
    """One place where a context was changed rather than extended."""

    call: int
    """The call whose prompt does not start with the previous context."""
    previous: int
    """The call before it in its lineage."""
    depth: int | None
    """Tokens both share at the start; None if only usage shows that something went."""
    evicted: Longs
    """int64: nodes of the previous context that are not in the prompt."""
    inserted: Longs
    """int64: nodes of the prompt that are not in the previous context."""
    retained: Longs
    """int64: nodes of the prompt after `depth` that show the previous context again."""
    kind: str
    evidence: Evidence
    tokens_before: int
    """Size of the previous context; of the previous prompt as reported, for `usage`."""
    tokens_after: int
    """Size of the new prompt."""
    semantics: Semantics
    """How the log says that the cache was treated here; `unknown` is taken as `re_prefill`."""

    @property
    def is_eviction(self) -> bool:
        """Whether something was really removed from the context."""
        return self.kind not in NO_EVICTION

    @property
    def evicted_tokens(self) -> int:
        """Tokens that left; for `usage` evidence the fall of the reported prompt size."""
        if self.depth is None:
            return self.tokens_before - self.tokens_after
        return len(self.evicted)


def junction_table(junctions: Sequence[Junction]) -> pd.DataFrame:
    """One row a junction, sizes in tokens; `depth` is missing where only usage shows a loss."""
    import pandas as pd

    rows = [
        {
            "call": junction.call,
            "kind": junction.kind,
            "depth": junction.depth,
            "evicted": junction.evicted_tokens,
            "inserted": len(junction.inserted),
            "retained": len(junction.retained),
            "tokens_before": junction.tokens_before,
            "tokens_after": junction.tokens_after,
            "evidence": junction.evidence,
            "eviction": junction.is_eviction,
            "semantics": junction.semantics,
        }
        for junction in junctions
    ]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"depth": "Int64"})


def find_junctions(
    tree: EvictionTree, encoding: Encoding, rollout: Rollout, decode: Decode | None = None
) -> tuple[Junction, ...]:
    """All junctions of a rollout, in call order.

    Args:
        tree: its eviction tree.
        encoding: its tokens, with message spans where the log has them.
        rollout: its calls, with the harness's hints and the provider's usage.
        decode: ids to text, to tell retokenised text from changed text; None if not possible.
    """
    broken = set(tree.junction_calls.tolist())
    kept, lengths, previous = tree.kept, tree.context_length, tree.previous
    junctions = []
    for call in range(len(tree.tip)):
        before = int(previous[call])
        if call in broken:
            change = change_at(tree, encoding.calls, call, int(kept[call]))
            namer = _Namer(tree, rollout, call, change, decode)
            kind, evidence = namer.name()
            junctions.append(
                Junction(
                    call=call,
                    previous=before,
                    depth=change.depth,
                    evicted=change.before[change.goes],
                    inserted=change.after[change.comes],
                    retained=change.after[~change.comes],
                    kind=kind,
                    evidence=evidence,
                    tokens_before=int(lengths[before]),
                    tokens_after=int(tree.prompt_length[call]),
                    semantics=said_of(rollout.calls[call], rollout),
                )
            )
        elif before >= 0:
            junctions += _unexplained(rollout, before, call)
    return tuple(junctions)


def _unexplained(rollout: Rollout, before: int, call: int) -> list[Junction]:
    """A junction that only the provider's token counts show."""
    old, new = rollout.calls[before].usage, rollout.calls[call].usage
    if old is None or new is None or not old.prompt or not new.prompt:
        return []
    if old.prompt - new.prompt < UNEXPLAINED_DROP:
        return []
    nothing = np.empty(0, dtype=np.int64)
    return [
        Junction(
            call=call,
            previous=before,
            depth=None,
            evicted=nothing,
            inserted=nothing,
            retained=nothing,
            kind="unexplained",
            evidence="usage",
            tokens_before=old.prompt,
            tokens_after=new.prompt,
            semantics=said_of(rollout.calls[call], rollout),
        )
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Namer:
    """The ordered rules that give a junction its kind."""

    tree: EvictionTree
    rollout: Rollout
    call: int
    change: Change
    decode: Decode | None

    def name(self) -> tuple[str, Evidence]:
        """The first rule that applies, and what it rests on."""
        cosmetic, recorded = self._cosmetic(), self._recorded()
        if cosmetic:
            return cosmetic, "derived"
        return (recorded, "recorded") if recorded else (self._derived(), "derived")

    def _recorded(self) -> str | None:
        """Rules 4 and 5: what the harness said it did, or its format says of a message."""
        hints = [hint.kind for hint in self.rollout.calls[self.call].hints]
        if "fork" in hints:
            return "fork"
        if not hints and self._marked_summary():
            hints = ["summary"]
        return self._with_tail(hints[0]) if hints else None

    def _derived(self) -> str:
        """Rules 6 to 9: what the change itself shows."""
        if self._only_reasoning_went():
            return "template_strip"
        if self.change.restores:
            return "restore"
        return self._with_tail("summary") if self._summary() else self._plain()

    def _with_tail(self, kind: str) -> str:
        """A summary in front of retained text has a kind of its own."""
        return "summary_tail" if kind == "summary" and self.change.keeps_tail else kind

    def _cosmetic(self) -> str | None:
        """Rules 1 to 3: nothing but the way the same context was sent changed."""
        if self._same_prompt_before():
            return "retry"
        left, right = self._messages()
        if same_start(left, right, of="text") or self._same_text():
            return "retokenise"
        if same_start(left, right, of="content"):
            return "reserialise"
        return "header_change" if self._only_header_changed() else None

    def _same_prompt_before(self) -> bool:
        tree, size = self.tree, int(self.tree.prompt_length[self.call])
        if size == 0:
            return False
        last = tree.context(self.call)[size - 1]
        peers = np.flatnonzero(tree.lineage[: self.call] == tree.lineage[self.call])
        same_size = peers[tree.prompt_length[peers] == size]
        return any(tree.context(int(peer))[size - 1] == last for peer in same_size)

    def _messages(self) -> tuple[Sequence[Message] | None, Sequence[Message] | None]:
        calls = self.rollout.calls
        return messages_of(calls[int(self.tree.previous[self.call])]), calls[self.call].prompt

    def _same_text(self) -> bool:
        if self.decode is None or not self.change.goes.any():
            return False
        ids = self.tree.ids
        return self.decode(ids[self.change.after]).startswith(self.decode(ids[self.change.before]))

    def _only_header_changed(self) -> bool:
        left, right = self.change.left, self.change.right
        if left is None or right is None:
            return False
        changed = [unit for unit in (*left, *self._inserted_units()) if not unit.kept]
        return bool(changed) and all(unit.role == "system" for unit in changed)

    def _only_reasoning_went(self) -> bool:
        left, right = self._messages()
        if left is not None and right is not None:
            return same_start(left, right, of="answer")
        if self.change.comes[: self.change.tail].any():
            return False
        units = [unit for unit in self.change.left or () if not unit.kept]
        return bool(units) and all(unit.kind == "reasoning" for unit in units)

    def _inserted_units(self) -> list[Unit]:
        """Changed messages of the prompt up to its last retained token; all if none is retained."""
        end = self.change.tail or len(self.change.after)
        return [u for u in self.change.right or () if not u.kept and u.start < end]

    def _marked_summary(self) -> bool:
        """Whether the log says that the first thing inserted is a summary."""
        inserted = self._inserted_units()
        return bool(inserted) and inserted[0].kind == "summary"

    def _summary(self) -> bool:
        """Whether what stands at `l` is a summary: sampled just before, or fewer for more."""
        change = self.change
        first = change.right[0] if change.right else None
        if first is not None and first.role:
            quoted = change.sampled[first.start : first.end].any()
            opens = not first.kept and bool(quoted)
        else:
            opens = change.opens_with_completion
        if opens and change.goes.any():
            return True
        spoken = [u for u in change.left or () if not u.kept and u.role in SPEAKERS]
        inserted = [u for u in self._inserted_units() if u.role in SPEAKERS]
        return 0 < len(inserted) < len(spoken)

    def _plain(self) -> str:
        """Rules 8 and 9 for changes that are not a summary."""
        change = self.change
        if change.tail == 0:
            added = len(change.after) if change.right is None else len(change.right)
            return "rewrite" if added else "rewind"
        if not change.comes[: change.tail].any():
            return "drop"
        return "placeholder" if self._replaced_in_place() else "rewrite"

    def _replaced_in_place(self) -> bool:
        """Whether every evicted message has exactly one inserted in its place."""
        left, right = self.change.left, self.change.right
        if left is None or right is None:
            return False
        end = self.change.tail
        return _gaps(list(left)) == _gaps([unit for unit in right if unit.start < end])


def _gaps(units: list[Unit]) -> list[int]:
    """How many changed messages stand before each retained one, and after the last."""
    gaps = [0]
    for unit in units:
        if unit.kept:
            gaps.append(0)
        else:
            gaps[-1] += 1
    return gaps
