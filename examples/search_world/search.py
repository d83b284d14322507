"""The agent's only tool: BM25 over the documents of a task."""

from __future__ import annotations

from collections.abc import Sequence

import bm25s

from examples.search_world.world import Document

NOTHING = "No result."


class Search:
    """Finds documents by their words."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._index = bm25s.BM25()
        texts = [_words(f"{document.title} {document.text}") for document in documents]
        self._known = {word for words in texts for word in words}
        self._index.index(texts, show_progress=False)

    def find(self, query: str, most: int = 2) -> list[Document]:
        """The best documents first; none if no word of the query occurs in any."""
        words = [word for word in _words(query) if word in self._known]
        if not words:
            return []
        most = min(most, len(self._documents))
        found, scores = self._index.retrieve([words], k=most, show_progress=False)
        hits = zip(found[0], scores[0], strict=True)
        return [self._documents[int(at)] for at, score in hits if score > 0]


def shown(documents: Sequence[Document]) -> str:
    """What the agent gets to read."""
    return "\n".join(f"[{d.title}] {d.text}" for d in documents) or NOTHING


def _words(text: str) -> list[str]:
    return "".join(c.lower() if c.isalnum() else " " for c in text).split()
