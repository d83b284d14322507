"""Record LiteLLM: litellm_callback.py OUT.jsonl MODEL (OPENAI_BASE_URL, OPENAI_API_KEY)."""

import sys

import litellm

from mwviz.recorder.litellm import RecordingLogger

out, model = sys.argv[1:]
litellm.callbacks = [RecordingLogger(out)]
asked = [{"role": "user", "content": "Which boats came in today?"}]
answer = litellm.completion(f"openai/{model}", messages=asked, metadata={"session_id": "task-17"})
print(answer.choices[0].message.content)
