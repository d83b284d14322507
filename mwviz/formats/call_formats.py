"""The formats that hold the context of every call, most particular first."""

from __future__ import annotations

from mwviz.formats import (
    api_log,
    atif,
    harbor_traces,
    inspect_eval,
    langchain,
    litellm,
    openhands_calls,
    otel_spans,
    swe_agent,
    verifiers,
)
from mwviz.formats.format import Format

CALL_FORMATS: tuple[Format, ...] = (
    Format(
        "openhands-calls",
        "OpenHands completion logs",
        openhands_calls.detects,
        openhands_calls.reads,
        "Exact messages as sent; the reply as the model gave it.",
        "Token ids; with tool calls as text, a call that the provider split off the reply.",
    ),
    Format(
        "verifiers",
        "verifiers traces.jsonl (also of prime-rl)",
        verifiers.detects,
        verifiers.reads,
        "Exact tokens, marks and logprobs of every message; exact messages where it has no ids.",
        "Changes within one message: the log stores it anew; requests that failed.",
    ),
    Format(
        "verifiers-results",
        "verifiers results.jsonl with a trajectory column",
        verifiers.detects_results,
        verifiers.reads_results,
        "Exact prompts; exact tokens where the steps have them.",
        "What the harness did between two steps: it is derived from the prompts.",
    ),
    Format(
        "swe-agent",
        "SWE-agent trajectory (.traj)",
        swe_agent.detects,
        swe_agent.reads,
        "Exact from 1.1 on (query); 1.0 wrote each prompt one step early; older files hold the "
        "history only.",
        "Token ids; in old files what the history processors left out; requests that were repeated "
        "after a format error.",
    ),
    Format(
        "atif",
        "ATIF trajectory (Harbor)",
        atif.detects,
        atif.reads,
        "Exact tokens where the steps have ids; else contexts are rebuilt from the steps.",
        "Without ids: which steps a call really saw, and what the harness changed within one.",
    ),
    Format(
        "harbor-traces",
        "Harbor traces (one conversation a call)",
        harbor_traces.detects,
        harbor_traces.reads,
        "Exact messages of each call of one agent.",
        "Token ids, tool list, usage; calls of sub-agents stand in files of their own.",
    ),
    Format(
        "inspect",
        "Inspect log (.eval or .json)",
        inspect_eval.detects,
        inspect_eval.reads,
        "Exact: each model event holds the input it was sent; compactions are told by the log.",
        "Token ids; logprobs by token; what a provider did to the request.",
    ),
    Format(
        "langchain",
        "LangChain callback dump",
        langchain.detects,
        langchain.reads,
        "Exact: each call holds the messages as the middleware left them.",
        "Token ids; the tool list, unless the callback wrote it.",
    ),
    Format(
        "litellm",
        "LiteLLM standard logging payloads",
        litellm.detects,
        litellm.reads,
        "Exact messages, unless the proxy was told to hide contents.",
        "Hidden contents; token ids; which calls make an episode, unless they share a session.",
    ),
    Format(
        "otel",
        "OpenTelemetry spans (GenAI or OpenInference)",
        otel_spans.detects,
        otel_spans.reads,
        "Exact messages, if the instrumentation recorded contents in full.",
        "Token ids; contents that were not captured or were cut short.",
    ),
    Format(
        "openai-chat",
        "OpenAI chat-completions requests and responses",
        api_log.detects_chat,
        api_log.reads,
        "Exact messages; exact tokens where the engine returned token ids.",
        "Token ids and logprobs where the engine returned none; reasoning the provider kept back.",
    ),
    Format(
        "openai-text",
        "OpenAI text-completion requests and responses",
        api_log.detects_text,
        api_log.reads,
        "Exact prompts and completions; exact tokens where the engine returned token ids.",
        "Where messages begin and end in a raw prompt; token ids where the engine returned none.",
    ),
    Format(
        "openai-responses",
        "OpenAI Responses requests and responses",
        api_log.detects_responses,
        api_log.reads,
        "Exact items; chains of responses are joined where the log holds them.",
        "Encrypted reasoning and compaction items, and responses that the log lacks.",
    ),
    Format(
        "anthropic",
        "Anthropic messages requests and responses",
        api_log.detects_anthropic,
        api_log.reads,
        "Exact messages as sent; exact token counts of each call are a witness.",
        "Which blocks an edit on the server took away; token ids, logprobs.",
    ),
)
