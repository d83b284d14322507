from __future__ import annotations

import json

from mwviz_app.inspector import compact

CARD = {"said": "Call 3:", "before": "\u203913176\u203a" * 10 + "\u8a9e\ud83d", "n": {"a": -1.64}}
"""Ten tokens without a text, a letter and half a surrogate pair."""


def test_a_card_travels_short_and_whole() -> None:
    sent = compact(CARD)
    assert json.loads(sent) == CARD
    assert len(sent) < 0.8 * len(json.dumps(CARD))
