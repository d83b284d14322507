"""Edits in place: old tool results become stubs, old reasoning disappears."""

from __future__ import annotations

from dataclasses import dataclass

from mwviz.simulate.context import Context, Edit, Item, option, size, stripped, swapped

STUB = "[This tool result was cleared to save room.]"


@dataclass(frozen=True, slots=True)
class Clearing:
    """Claude Code's micro-compaction and OpenCode's prune."""

    keep: int = option(0, "newest tool results that always stay")
    turns: int = option(0, "newest turns of the person whose tool results always stay")
    protect: int = option(0, "tokens of the newest tool results, in older turns, that stay")
    at_least: int = option(0, "acts only if more tokens than this would go")

    def edit(self, context: Context) -> Edit | None:
        """The context with a stub for each tool result that is old enough."""
        old = [item for item in self._old(context.items) if not item.of]
        stubs = {id(item): context.stub(item, STUB) for item in old}
        freed = size(old) - size(stubs.values())
        if freed <= self.at_least:
            return None
        return Edit(swapped(context.items, stubs), "placeholder")

    def _old(self, items: tuple[Item, ...]) -> list[Item]:
        """Tool results outside everything that is protected."""
        results = turns = tokens = 0
        old = []
        for item in reversed(items):
            turns += item.is_user
            if not item.is_result:
                continue
            results += 1
            if results <= self.keep or turns < self.turns:
                continue
            tokens += item.tokens
            if tokens > self.protect:
                old.append(item)
        return old


@dataclass(frozen=True, slots=True)
class ThinkingStrip:
    """Chat templates that show reasoning only after the person's latest message."""

    def edit(self, context: Context) -> Edit | None:
        """The context without the reasoning in front of the person's latest message."""
        turns = [at for at, item in enumerate(context.items) if item.is_user]
        if not turns:
            return None
        before, after = context.items[: turns[-1]], context.items[turns[-1] :]
        kept = [stripped(item, context.writer) for item in before]
        if all(new is old for new, old in zip(kept, before, strict=True)):
            return None
        return Edit((*(item for item in kept if item is not None), *after), "template_strip")


@dataclass(frozen=True, slots=True)
class Append:
    """Nothing is ever removed: the control."""

    def edit(self, context: Context) -> Edit | None:  # noqa: ARG002
        """The context as it is."""
        return None
