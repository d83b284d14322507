"""Samples through a vLLM server: token ids in, token ids and log-probabilities out."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np

from examples.search_world.episode import Request, Sampled, Sampler
from mwviz.errors import MwvizError

SECONDS = 600
"""Longest time that a batch may take."""
MARK = "token_id:"
"""How the server writes a token when asked for ids in place of text."""


class ServerSampler(Sampler):
    """Completions of `URL/v1/completions` at temperature 1, all prompts in one request.

    Args:
        url: of the server.
        model: as the server names it.
        stop: the id that ends a completion.
    """

    def __init__(self, url: str, *, model: str, stop: int) -> None:
        self._url, self._name, self._stop = url.rstrip("/"), model, stop

    def sample(self, requests: Sequence[Request]) -> list[Sampled]:
        """One completion a request, in order; requests of one limit are sent together.

        Raises:
            MwvizError: the server cannot be reached, refuses, or gives no token ids.
        """
        found: dict[int, Sampled] = {}
        for limit in sorted({request.limit for request in requests}):
            places = [i for i, request in enumerate(requests) if request.limit == limit]
            sent = [requests[i].prompt_ids.tolist() for i in places]
            found |= dict(zip(places, self._complete(sent, limit), strict=True))
        return [found[index] for index in range(len(requests))]

    def _complete(self, prompts: list[list[int]], limit: int) -> list[Sampled]:
        choices = self._asked(
            {
                "model": self._name,
                "prompt": prompts,
                "max_tokens": limit,
                "temperature": 1.0,
                "top_p": 1.0,
                "top_k": -1,
                "logprobs": 0,
                "stop_token_ids": [self._stop],
                "return_tokens_as_token_ids": True,
                "skip_special_tokens": False,
                "spaces_between_special_tokens": False,
            }
        )
        if len(choices) != len(prompts):
            raise self._error(f"gave {len(choices)} completions of {len(prompts)} prompts")
        return [self._read(choice) for choice in sorted(choices, key=lambda c: c["index"])]

    def _asked(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        request = urllib.request.Request(
            f"{self._url}/v1/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                choices: list[dict[str, Any]] = json.load(answer)["choices"]
        except urllib.error.HTTPError as error:
            raise self._error(
                f"{error.code}: {error.read()[:500].decode(errors='replace')}"
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._error(f"no usable answer: {error}") from error
        return choices

    def _read(self, choice: dict[str, Any]) -> Sampled:
        told = choice.get("logprobs") or {}
        tokens, values = told.get("tokens") or [], told.get("token_logprobs") or []
        if not tokens or not all(str(token).startswith(MARK) for token in tokens):
            raise self._error("gave no token ids; expected return_tokens_as_token_ids to work")
        ids = [int(str(token).removeprefix(MARK)) for token in tokens]
        if len(values) != len(ids) or None in values:
            raise self._error(f"gave {len(values)} log-probabilities of {len(ids)} tokens")
        return Sampled(np.array(ids, dtype=np.int32), np.array(values, dtype=np.float32))

    def _error(self, what: str) -> MwvizError:
        return MwvizError(f"{self._url}: {what}")
