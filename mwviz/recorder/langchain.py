"""A LangChain callback that dumps every chat-model run, as the format `langchain` reads it.

    agent.invoke(..., config={"callbacks": [RecordingHandler("run.jsonl")]})

It sees the messages after every middleware; runs of one `thread_id` make one rollout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, message_to_dict
from langchain_core.outputs import ChatGeneration, LLMResult

from mwviz.recorder.dump import Dump
from mwviz.recorder.secrets import Secrets


class RecordingHandler(BaseCallbackHandler):
    """Give it to a run's `callbacks`; one handler may serve many runs at once."""

    raise_error = False
    run_inline = True

    def __init__(self, path: str | Path, *, secrets: Secrets | None = None) -> None:
        """Makes the file, or appends to it.

        Raises:
            TraceError: It cannot be written.
        """
        self._dump = Dump(path, secrets=secrets)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Writes what the model is sent; LangChain starts one run a list."""
        settings = more.get("invocation_params") or {}
        start: dict[str, Any] = {"run_id": str(run_id), "metadata": metadata or {}}
        start["messages"] = [message_to_dict(message) for message in messages[0]]
        if tools := settings.get("tools"):
            start["tools"] = tools
        self._dump.write(start)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        """Writes what the model gave."""
        first = response.generations[0] if response.generations else []
        answers = [g.message for g in first if isinstance(g, ChatGeneration)]
        self._dump.write(
            {"run_id": str(run_id), "completion": [message_to_dict(m) for m in answers]}
        )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """Writes that there was no answer; the kind of error only, its text may hold a key."""
        self._dump.write({"run_id": str(run_id), "error": type(error).__name__})
