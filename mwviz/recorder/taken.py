"""One exchange while it goes through the proxy: what came so far, without its content encoding."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

from mwviz.formats.exchange import Api
from mwviz.recorder.writing import Exchanged


@dataclass(slots=True)
class Taken:
    """What came back so far for one recorded request."""

    rollout: str
    api: Api
    request: bytes
    started: float
    status: int = 0
    response: bytearray = field(default_factory=bytearray)
    encoding: str = ""
    whole: bool = False

    def exchanged(self) -> Exchanged:
        """The exchange as far as it went, its body decoded."""
        body = decoded(bytes(self.response), self.encoding)
        return Exchanged(
            self.rollout, self.api, self.request, body, self.started, self.status, self.whole
        )


def decoded(body: bytes, encoding: str) -> bytes:
    """A body without its content encoding, as far as it goes if it was cut; empty if it is none."""
    if not encoding:
        return body
    try:
        return httpx.Response(200, headers={"content-encoding": encoding}, content=body).content
    except httpx.DecodingError:
        return b""
