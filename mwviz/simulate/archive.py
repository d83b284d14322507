"""MemexRL: text is put aside under a name and can be read back."""

from __future__ import annotations

from dataclasses import dataclass

from mwviz.simulate.context import Context, Edit, Item, option, size, swapped, without

OFFLOADED = "[Put aside; it can be read back under this tool call's id.]"


@dataclass(frozen=True, slots=True)
class Memex:
    """The original: everything but the task becomes an index, and blocks are read back later."""

    over: int = option(8_000, "tokens of a prompt above which it compresses")
    summary: int = option(300, "most tokens of the index")
    read: int = option(2, "calls after a compression at which a block is read back; 0: never")

    def edit(self, context: Context) -> Edit | None:
        """System, task and index, once the prompt is too long; else a block that is read back."""
        if context.tokens <= self.over:
            return self._read(context)
        first = (*context.head, *context.task)
        asked = tuple(i for i in without(context.pending, first) if i.is_user)
        gone = without(context.items, first + asked)
        if all(item.of for item in gone):
            return Edit(context.items, None, self.over)
        index = context.summary(gone, self.summary)
        return Edit((*first, index, *asked), "summary", self.over)

    def _read(self, context: Context) -> Edit | None:
        """The largest archived tool result, appended again if there is room for it."""
        indexes = [item for item in context.items if item.of]
        if not self.read or not indexes or indexes[-1].made + self.read != context.call:
            return None
        blocks = [item for item in indexes[-1].of if item.is_result]
        fitting = [item for item in blocks if context.tokens + item.tokens <= self.over]
        if not fitting:
            return None
        return Edit((*context.items, max(fitting, key=lambda item: item.tokens)))


@dataclass(frozen=True, slots=True)
class MemexPaper:
    """The paper's variant (arXiv 2609.00865): offload, retrieve, restore before the answer."""

    over: int = option(8_000, "tokens of a prompt above which it offloads tool results")
    retrieve: int = option(2, "calls after an offload at which a result is read back; 0: never")

    def edit(self, context: Context) -> Edit | None:
        """The context with results read back or put aside; all of the history at the last call."""
        if context.call == context.calls - 1:
            changed = any(item.of for item in context.items)
            return Edit(context.history, "restore") if changed else None
        read = self._due(context)
        over = context.tokens + size(read) - self.over
        stubs = self._offloaded(context, over)
        kind = "placeholder" if stubs else None
        return Edit((*swapped(context.items, stubs), *read), kind, self.over)

    def _offloaded(self, context: Context, over: int) -> dict[int, Item]:
        """Stubs for the oldest results that some call has seen, until the prompt fits."""
        stubs: dict[int, Item] = {}
        for item in without(context.items, context.pending):
            if over > 0 and item.is_result and not item.of:
                stub = context.stub(item, OFFLOADED)
                stubs[id(item)] = stub
                over -= item.tokens - stub.tokens
        return stubs

    def _due(self, context: Context) -> tuple[Item, ...]:
        """The largest result put aside so many calls ago, if it was never read back."""
        aside = [block for item in context.items for block in item.of]
        due = [
            block
            for item in context.items
            if self.retrieve and item.of and item.made + self.retrieve == context.call
            for block in item.of
            if aside.count(block) == 1
        ]
        return (max(due, key=lambda block: block.tokens),) if due else ()
