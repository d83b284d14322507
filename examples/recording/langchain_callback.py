"""Record LangChain: langchain_callback.py OUT.jsonl MODEL (OPENAI_BASE_URL, OPENAI_API_KEY)."""

import sys

from langchain_openai import ChatOpenAI

import mwviz
from mwviz.recorder.langchain import RecordingHandler

out, name = sys.argv[1:]
config = {"callbacks": [RecordingHandler(out)], "metadata": {"thread_id": "task-17"}}
print(ChatOpenAI(model=name).invoke("Which boats came in today?", config).content)
print(len(mwviz.load(out).rollouts[0].calls), "calls recorded")
