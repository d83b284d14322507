"""Record an Anthropic client: anthropic_client.py OUT.jsonl MODEL (ANTHROPIC_BASE_URL)."""

import sys

import anthropic

import mwviz

out, model = sys.argv[1:]
client = mwviz.record(anthropic.Anthropic(), out, rollout="task-17")
asked = {"role": "user", "content": "Which boats came in today?"}
with client.messages.stream(model=model, max_tokens=64, messages=[asked]) as stream:
    print("".join(stream.text_stream))
print(len(mwviz.load(out).rollouts[0].calls), "calls recorded")
