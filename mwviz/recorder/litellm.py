"""A LiteLLM callback that dumps every call, as the format `litellm` reads it.

    litellm.callbacks = [RecordingLogger("run.jsonl")]

Calls of one session (`session_id` in their metadata) make one rollout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from mwviz.recorder.dump import Dump
from mwviz.recorder.secrets import Secrets

PAYLOAD = "standard_logging_object"


class RecordingLogger(CustomLogger):
    """Give it to `litellm.callbacks`; works in the package and in the proxy."""

    def __init__(self, path: str | Path, *, secrets: Secrets | None = None) -> None:
        """Makes the file, or appends to it.

        Raises:
            TraceError: It cannot be written.
        """
        super().__init__()
        self._dump = Dump(path, secrets=secrets)

    def log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Writes a call, whether it has an answer or failed."""
        if payload := kwargs.get(PAYLOAD):
            self._dump.write(payload)

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """The same for asyncio."""
        self.log_success_event(kwargs, response_obj, start_time, end_time)

    log_failure_event = log_success_event
    async_log_failure_event = async_log_success_event
