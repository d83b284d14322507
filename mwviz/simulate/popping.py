"""TC-RAG: the context is a stack of observations, and some are popped."""

from __future__ import annotations

from dataclasses import dataclass

from mwviz.simulate.context import Context, Edit, Item, interaction, option, size, without

RETHINK = "The last search was taken back. Think again before you act."
LIFO, FIFO, LARGEST = "lifo", "fifo", "largest"


@dataclass(frozen=True, slots=True)
class Popping:
    """Observations leave when there are too many, or before the calls that are named.

    `lifo` takes the newest observation back with the action that asked for it, and says so.
    `fifo` and `largest` remove one observation alone, never the one that no call has seen yet.
    """

    order: str = option(LIFO, "which observation goes", choices=(LIFO, FIFO, LARGEST))
    observations: int = option(2_000, "tokens of observations above which it pops")
    at: tuple[int, ...] = option((), "calls (from 0) before which it pops in any case")

    def edit(self, context: Context) -> Edit | None:
        """The context after all pops."""
        items, told = context.items, context.call in self.at
        while told or _observed(items) > self.observations:
            popped = self._pop(context, items)
            if popped is None:
                break
            items, told = popped, False
        if len(items) == len(context.items):
            return None
        if self.order != LIFO:
            return Edit(items, "drop")
        return Edit((*items, context.item(context.writer.note(RETHINK))), "rewind")

    def _pop(self, context: Context, items: tuple[Item, ...]) -> tuple[Item, ...] | None:
        """The items after one pop, None if nothing can be popped."""
        results = [item for item in items if item.is_result and item.step >= 0]
        if self.order != LIFO:
            results = [item for item in results if item.step < context.call - 1]
        if not results:
            return None
        if self.order == LIFO:
            asked = interaction(items, results[-1].step)
            return without(items, (item for item in asked if not item.is_user))
        gone = results[0] if self.order == FIFO else max(results, key=lambda item: item.tokens)
        return without(items, (gone,))


def _observed(items: tuple[Item, ...]) -> int:
    return size(item for item in items if item.is_result and item.step >= 0)
