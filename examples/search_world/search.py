"""The agent's only tool: BM25 over the documents of a task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rank_bm25 import BM25Plus

from examples.search_world.world import Document

NOTHING = "No result."


class Search:
    """Finds documents by their words."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        texts = [_words(f"{document.title} {document.text}") for document in documents]
        self._known = {word for words in texts for word in words}
        # The plus keeps a word that most documents hold from counting against them.
        self._index = BM25Plus(texts)

    def find(self, query: str, most: int = 2) -> list[Document]:
        """The best documents first; none if no word of the query occurs in any."""
        words = [word for word in _words(query) if word in self._known]
        if not words:
            return []
        scores = self._index.get_scores(words)
        best = np.argsort(-scores, kind="stable")[:most]
        return [self._documents[int(at)] for at in best]


def shown(documents: Sequence[Document]) -> str:
    """What the agent gets to read."""
    return "\n".join(f"[{d.title}] {d.text}" for d in documents) or NOTHING


def _words(text: str) -> list[str]:
    return "".join(c.lower() if c.isalnum() else " " for c in text).split()
