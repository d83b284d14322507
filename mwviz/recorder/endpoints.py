"""Which requests are recorded: the endpoints of the four APIs, and the rollout a path names."""

from __future__ import annotations

import re
from typing import NamedTuple

from mwviz.formats.exchange import Api
from mwviz.formats.percall import ONLY_ROLLOUT

ENDPOINTS: dict[str, Api] = {
    "/messages": "anthropic",
    "/chat/completions": "chat",
    "/completions": "text",
    "/responses": "responses",
    "/responses/compact": "responses",
}
"""By the end of the path, the longest first that fits."""
ROLLOUTS = "/r/"
"""How a path that names a rollout begins."""
ROLLOUT_PATH = re.compile(ROLLOUTS + r"(?P<rollout>[\w.~-]{1,64})(?P<rest>/.*)", re.ASCII)
ROLLOUT_NAMES = "expected a name of 1 to 64 ASCII letters, digits, '.', '_', '~' and '-'"


class Place(NamedTuple):
    """A request's path without what it says of the rollout."""

    rollout: str
    path: str


def place(path: str) -> Place:
    """`/r/<rollout>/v1/...` as rollout and `/v1/...`; other paths belong to the only rollout."""
    found = ROLLOUT_PATH.fullmatch(path)
    return Place(found["rollout"], found["rest"]) if found else Place(ONLY_ROLLOUT, path)


def api_of(path: str) -> Api | None:
    """The API whose endpoint the path ends with; None if what goes there is not a model call."""
    fits = [end for end in ENDPOINTS if path.endswith(end)]
    return ENDPOINTS[max(fits, key=len)] if fits else None
