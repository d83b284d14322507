"""Record an OpenAI client: openai_client.py OUT.jsonl MODEL (OPENAI_BASE_URL, OPENAI_API_KEY)."""

import sys

import openai

import mwviz

out, model = sys.argv[1:]
client = mwviz.record(openai.OpenAI(), out, rollout="task-17")
answer = client.chat.completions.create(
    model=model, messages=[{"role": "user", "content": "Which boats came in today?"}]
)
print(answer.choices[0].message.content)
print(len(mwviz.load(out).rollouts[0].calls), "calls recorded")
