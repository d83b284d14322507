"""Records agents that nobody can change: what was sent and what came back, as `mwviz/1`.

Three ways in, one log: a proxy between harness and provider (`mwviz record`), a hook in a client of
the openai or anthropic package (`mwviz.record(client, ...)`), callbacks of LiteLLM and LangChain.
"""
