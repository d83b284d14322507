"""Fixtures of the formats that are event logs: what must come out of each."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from mwviz import load
from mwviz.errors import TraceError
from mwviz.formats import read
from mwviz.rollout import Call, Hint, Rollout, Usage

DATA = Path(__file__).parents[1] / "data"
FIXTURES = DATA / "formats"


class Expected(NamedTuple):
    format: str
    calls: int
    kinds: list[str]
    leaves: int


EXPECTED = {
    "codex/a-replacement.jsonl": Expected("codex", 6, ["summary"], 2),
    "codex/b-message-only.jsonl": Expected("codex", 4, ["summary"], 2),
    "codex/c-windows.jsonl": Expected("codex", 5, ["summary", "rewind", "summary"], 4),
    "pi/a-two-compactions.jsonl": Expected("pi", 5, ["summary_tail", "summary_tail"], 3),
    "pi/b-branches.jsonl": Expected("pi", 4, ["retry", "fold"], 3),
    "pi/c-first-version.jsonl": Expected("pi", 5, ["summary_tail"], 2),
    "qwen-code/chat.jsonl": Expected("qwen-code", 5, ["summary", "rewind"], 3),
    "gemini-cli/a-log.jsonl": Expected("gemini-cli", 5, ["placeholder", "rewind", "summary"], 4),
    "gemini-cli/b-document.json": Expected("gemini-cli", 2, [], 1),
    "openhands/a-list.json": Expected("openhands", 4, ["summary_tail", "summary_tail"], 3),
    "openhands/b-conversation": Expected("openhands", 2, [], 1),
    "openhands-v0/a-trajectory.json": Expected("openhands-v0", 4, ["summary_tail", "drop"], 3),
    "opencode/a-export.json": Expected("opencode", 7, ["placeholder", "summary_tail"], 3),
    "opencode/c-sanitized.json": Expected("opencode", 7, ["placeholder", "summary_tail"], 3),
    "opencode/b-storage": Expected("opencode", 5, ["summary"], 3),
    "qwen-agent/list.json": Expected("qwen-agent", 3, [], 1),
}


def fixture(name: str) -> Rollout:
    (rollout,) = read(FIXTURES / name).rollouts
    return rollout


def said(call: Call) -> list[str]:
    """Each message of the prompt: the first letters of its role, and its text."""
    return [f"{message.role[0]}:{message.text}" for message in call.prompt or ()]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_log_gives_its_calls_junctions_and_leaves(name: str) -> None:
    expected = EXPECTED[name]
    trace = load(FIXTURES / name)
    (analysis,) = trace.analyses
    assert read(FIXTURES / name).format == expected.format
    assert trace.damage == ()
    assert len(analysis.rollout.calls) == expected.calls
    assert [junction.kind for junction in analysis.junction_list] == expected.kinds
    assert len(analysis.tree.leaves) == expected.leaves


@pytest.mark.parametrize("name", EXPECTED)
def test_ids_of_calls_are_unique(name: str) -> None:
    calls = fixture(name).calls
    assert len({call.id for call in calls}) == len(calls)


def test_codex_pieces_of_a_response_are_one_reply() -> None:
    first = fixture("codex/a-replacement.jsonl").calls[0]
    assert first.completion is not None
    assert [part.kind for part in first.completion[0].parts] == [
        "reasoning",
        "text",
        "tool_call",
        "tool_call",
    ]
    assert said(first)[0] == "s:You fix small programs."


def test_codex_repeated_counts_say_nothing_new() -> None:
    rollout = fixture("codex/a-replacement.jsonl")
    used = [call.usage.prompt for call in rollout.calls if call.usage]
    assert used == [5000, 5200, 5300, 5400, 1500, 1550]
    assert rollout.warnings == ()


def test_codex_compaction_leaves_the_history_it_names() -> None:
    after = fixture("codex/a-replacement.jsonl").calls[4]
    assert said(after)[2:] == [
        "u:Make the tests pass.",
        "u:Then change f.",
        "u:So far: f in a.py returned 1 and was changed to 2.",
        "u:Run them again.",
    ]
    assert [m.mark for m in after.prompt or ()][-2] == "summary"
    assert after.content == "rebuilt"


def test_codex_encrypted_reasoning_makes_later_prompts_partial() -> None:
    calls = fixture("codex/a-replacement.jsonl").calls
    assert [call.content for call in calls[:2]] == ["rebuilt", "partial"]
    assert any("encrypted" in hole.why for hole in calls[1].holes)


def test_codex_compaction_of_the_first_generation_keeps_what_was_typed() -> None:
    rollout = fixture("codex/b-message-only.jsonl")
    assert said(rollout.calls[2]) == [
        "u:Count the lines.",
        "u:The file a has twelve lines.",
        "u:And b?",
    ]
    assert rollout.calls[2].content == "partial"
    (warning,) = rollout.warnings
    assert warning.startswith("1 token count belongs to no reply")


def test_codex_references_are_looked_up_and_lost_ones_named() -> None:
    rollout = fixture("codex/c-windows.jsonl")
    assert said(rollout.calls[2])[1:] == [
        "u:Write a poem.",
        "u:Another one.",
        "s:Be brief.",
        "u:",
        "u:A third.",
    ]
    assert [hint.detail for call in rollout.calls for hint in call.hints] == [
        "remote, window 1",
        "1 turns rolled back",
        "remote, window 2",
    ]
    holes = {hole.why for hole in rollout.calls[4].holes}
    assert "the summary of a remote compaction is encrypted in the file" in holes
    assert "an earlier message that the compaction kept is not in the file" in holes
    assert rollout.warnings[0].startswith("1 record of the unknown type 'world_state'")


def test_codex_rollback_takes_the_last_turn_away() -> None:
    rolled = fixture("codex/c-windows.jsonl").calls[3]
    assert said(rolled)[-2:] == ["u:", "u:A funny third."]


def ids(call: Call) -> list[str | None]:
    return [message.id for message in call.prompt or ()]


def test_h07_pi_sends_what_the_second_compaction_left_even_where_messages_vanish() -> None:
    trace = load(FIXTURES / "pi" / "a-two-compactions.jsonl")
    calls = trace.analyses[0].rollout.calls
    assert [ids(call) for call in calls[3:]] == [
        ["c1", "u2", "a2", "u3", "a3", "u4"],
        ["c2", "u4", "a4", "u5"],
    ]
    units = load(DATA / "cases" / "H07" / "calls.jsonl").analyses[0]
    assert len(units.junction_list) == len(trace.analyses[0].junction_list)
    assert len(units.tree.leaves) == len(trace.analyses[0].tree.leaves)


def test_pi_leaves_a_stopped_reply_out_of_later_prompts() -> None:
    stopped, again = fixture("pi/b-branches.jsonl").calls[1:3]
    assert (stopped.finish, stopped.usage) == ("aborted", None)
    assert ids(again) == ["u1", "a1", "r1", "r2", "u2"]


def test_pi_branch_starts_where_it_hangs_with_the_summary_of_the_other() -> None:
    last = fixture("pi/b-branches.jsonl").calls[3]
    assert said(last)[4:] == ["u:tried and done", "u:$ pwd\n/demo", "u:mind the gap", "u:next"]
    assert [m.mark for m in last.prompt or ()][4] == "summary"


def test_pi_counts_kept_entries_from_the_header_in_its_first_version() -> None:
    rollout = fixture("pi/c-first-version.jsonl")
    assert said(rollout.calls[3]) == ["u:one was said", "u:two", "a:second", "u:three"]
    assert [call.usage is None for call in rollout.calls] == [False, False, True, False, False]
    assert said(rollout.calls[4])[-2:] == ["a:cut of", "u:four"]
    (warning,) = rollout.warnings
    assert warning.startswith("1 reply was stopped before it ended")


def test_qwen_code_compression_leaves_the_history_it_holds() -> None:
    rollout = fixture("qwen-code/chat.jsonl")
    assert said(rollout.calls[2]) == [
        "u:<state_snapshot>two files, a and b</state_snapshot>",
        "a:Understood.",
        "u:Show a.",
    ]
    assert rollout.calls[2].hints == (Hint("summary", "4,065 to 3,900 tokens"),)
    assert rollout.calls[1].usage == Usage(4060, 5, 4000)


def test_qwen_code_compression_without_a_history_leaves_a_hole() -> None:
    rollout = fixture("qwen-code/chat.jsonl")
    assert [call.content for call in rollout.calls][-2:] == ["rebuilt", "partial"]
    (warning,) = rollout.warnings
    assert warning.startswith("1 compression does not hold the history that it left")
    [why] = {hole.why for hole in rollout.calls[-1].holes if "compression" in hole.why}
    assert why == "the history that a compression left is not in the file"


def test_qwen_code_parallel_calls_are_paired_with_their_results() -> None:
    asked, answered = (fixture("qwen-code/chat.jsonl").calls[1].prompt or ())[1:]
    assert [(p.kind, p.id) for p in asked.parts] == [("tool_call", "f1"), ("tool_call", "f2")]
    assert [(p.kind, p.id) for p in answered.parts] == [
        ("tool_result", "f1"),
        ("tool_result", "f2"),
    ]
    assert answered.role == "tool"


def test_gemini_cli_reply_is_what_its_last_record_says() -> None:
    first = fixture("gemini-cli/a-log.jsonl").calls[0]
    assert first.completion is not None
    assert [part.kind for part in first.completion[0].parts] == ["text", "tool_call", "tool_call"]
    assert first.usage == Usage(9000, 42, 0)


def test_gemini_cli_masked_results_are_replaced_once() -> None:
    prompts = [call.prompt or () for call in fixture("gemini-cli/a-log.jsonl").calls]
    results = [[m.text for m in prompt if m.role == "tool"] for prompt in prompts[1:3]]
    assert results == [["long text of x\nlong text of y"], ["(masked)\nlong text of y"]]


def test_gemini_cli_rewind_takes_the_named_message_away() -> None:
    rewound = fixture("gemini-cli/a-log.jsonl").calls[3]
    assert said(rewound)[-2:] == ["a:Both are long.", "u:Shorten y."]


def test_gemini_cli_document_joins_a_reply_and_its_late_tool_calls() -> None:
    first, second = fixture("gemini-cli/b-document.json").calls
    assert [part.kind for m in first.completion or () for part in m.parts] == ["text", "tool_call"]
    assert [m.role for m in second.prompt or ()] == ["user", "assistant", "tool"]


def test_gemini_cli_broken_message_of_a_document_costs_that_message_only() -> None:
    path = FIXTURES / "gemini-cli" / "b-document.json"
    reading = read(path.read_bytes().replace(b'"Delete z."', b"7"))
    (damage,) = reading.damage
    assert damage.what == "content is 7, expected text or a list of parts"
    assert len(reading.rollouts[0].calls) == 2


def test_openhands_events_of_one_response_are_one_reply() -> None:
    first, second = fixture("openhands/a-list.json").calls[:2]
    assert first.completion is not None
    kinds = [part.kind for part in first.completion[0].parts]
    assert kinds == ["reasoning", "text", "tool_call", "tool_call"]
    assert said(first)[1:] == [
        "s:You run commands.\nThe host is demo.",
        "u:List and count.\nA rule of the skill.",
    ]
    assert said(second)[-2:] == ["t:a b", "t:2"]


def test_openhands_condensation_puts_its_summary_in_place_of_the_old_one() -> None:
    calls = fixture("openhands/a-list.json").calls
    assert said(calls[2])[3:] == ["u:a and b were listed", "a:{}", "t:no such tool"]
    assert said(calls[3])[3:] == ["u:two files", "a:There are two files.", "u:Thanks."]
    assert [hint.detail for c in calls for hint in c.hints] == [
        "4 events forgotten",
        "3 events forgotten",
    ]


def test_openhands_condensation_that_forgets_what_is_no_name_says_so() -> None:
    whole = (FIXTURES / "openhands" / "a-list.json").read_bytes()
    odd = whole.replace(b'"forgotten_event_ids": [', b'"forgotten_event_ids": [["e9"], ', 1)
    told = [each for each in read(odd).warnings if "condensation forgets" in each]
    assert odd != whole
    assert len(told) == 1


def test_openhands_folder_is_read_in_the_order_of_its_numbers_with_its_counts() -> None:
    rollout = fixture("openhands/b-conversation")
    assert rollout.id == "oh-demo"
    assert [call.usage for call in rollout.calls] == [Usage(1200, 30, 1000), Usage(1300, 12, 1200)]
    assert said(rollout.calls[1])[-2:] == ["t:a b", "t:2"]


def test_a_folder_names_the_file_that_is_broken_and_follows_no_link(tmp_path: Path) -> None:
    source = FIXTURES / "openhands" / "b-conversation"
    for path in source.rglob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "event-6-e2.json").write_text("{")
    (tmp_path / "event-9-e3.json").unlink()
    (tmp_path / "event-9-e3.json").symlink_to(source / "events" / "event-9-e3.json")
    reading = read(tmp_path)
    (damage,) = reading.damage
    assert "event-6-e2.json" in damage.what
    assert [call.id for call in reading.rollouts[0].calls] == ["r2"]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="a folder of files, none with a JSON record"):
        read(tmp_path)


def test_openhands_v0_actions_share_the_response_they_came_from() -> None:
    rollout = fixture("openhands-v0/a-trajectory.json")
    assert [call.id for call in rollout.calls] == ["r1", "r2", "r3", "15"]
    assert rollout.calls[0].usage == Usage(900, 20, 450)
    assert [m.role for m in rollout.calls[1].prompt or ()][-3:] == ["assistant", "tool", "tool"]
    (warning,) = rollout.warnings
    assert warning.startswith("1 agent actions of the type message carry no response")


def test_openhands_v0_forgets_a_range_or_named_events() -> None:
    calls = fixture("openhands-v0/a-trajectory.json").calls
    assert said(calls[2])[3:] == [
        "u:Added context",
        "u:a and b were listed",
        'a:Once more.\n{"command":"ls"}',
        "t:a b c",
    ]
    assert said(calls[3])[-2:] == ['a:Now three.\n{"command":"wc"}', "t:3"]
    assert {hole.why for hole in calls[3].holes} == {
        "workspace context is put in words that are not in the file"
    }


def test_opencode_call_reads_what_was_not_yet_pruned_when_it_began() -> None:
    calls = {call.id: call for call in fixture("opencode/a-export.json").calls}
    results = {
        name: [p.text for m in call.prompt or () for p in m.parts if p.kind == "tool_result"]
        for name, call in calls.items()
    }
    assert results["msg_05"] == ["long text of x"]
    assert results["msg_06"] == ["[Old tool result content cleared]", "text of y"]
    assert calls["msg_06"].hints == (Hint("placeholder", "1 tool results pruned"),)


def test_opencode_summary_stands_in_front_of_the_tail_it_keeps() -> None:
    calls = {call.id: call for call in fixture("opencode/a-export.json").calls}
    assert said(calls["msg_11"]) == [
        "u:",
        "a:x was read and is long.",
        "u:Read y, too.",
        'a:{"path":"y"}',
        "t:text of y",
        "a:Both are read.",
        "u:Go on.",
    ]
    assert (calls["msg_09"].lineage, calls["msg_11"].lineage) == ("compaction", "main")
    assert (calls["msg_07"].finish, calls["msg_07"].completion) == ("APIError", ())


def test_opencode_sanitized_texts_are_placeholders_and_are_said_to_be() -> None:
    rollout, whole = fixture("opencode/c-sanitized.json"), fixture("opencode/a-export.json")
    assert [call.id for call in rollout.calls] == [call.id for call in whole.calls]
    assert [call.usage for call in rollout.calls] == [call.usage for call in whole.calls]
    assert {call.content for call in rollout.calls} == {"partial"}
    assert all("sanitized" in call.holes[-1].why for call in rollout.calls)
    (warning,) = set(rollout.warnings) - set(whole.warnings)
    assert "placeholder for their text, as the export was sanitized" in warning
    assert all(m.text.startswith("[redacted:") for m in rollout.calls[0].prompt or ())


def test_opencode_steps_and_sub_agents_of_a_storage_folder_are_calls() -> None:
    calls = fixture("opencode/b-storage").calls
    assert [(call.id, call.lineage) for call in calls] == [
        ("msg_0b", "main"),
        ("msg_0b-2", "main"),
        ("msg_0d", "ses_B"),
        ("msg_0e", "compaction"),
        ("msg_0g", "main"),
    ]
    assert said(calls[1]) == ["u:Delegate.", 'a:I ask a helper.\n{"prompt":"help"}', "t:helped"]
    assert [call.usage for call in calls[:2]] == [Usage(600, 5, 0), Usage(1250, 4, 600)]
    assert said(calls[4]) == ["a:A helper helped.", "u:Thanks."]


def test_opencode_database_gives_what_the_storage_folder_gives(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    stored = FIXTURES / "opencode" / "b-storage"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT)")
        made.execute("CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, data TEXT)")
        made.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
        for file in sorted(stored.rglob("*.json")):
            value = json.loads(file.read_text())
            names = [value.pop(k, None) for k in ("id", "messageID", "sessionID")]
            if "/session/" in str(file):
                row = (names[0], value.get("parentID"))
            else:
                row = (*(name for name in names if name), json.dumps(value))
            made.execute(f"INSERT INTO {file.parts[-3]} VALUES ({','.join('?' * len(row))})", row)
        made.commit()
    before = path.read_bytes()
    found, expected = read(path).rollouts, read(stored).rollouts
    assert [said(call) for call in found[0].calls] == [said(call) for call in expected[0].calls]
    assert [c.lineage for c in found[0].calls] == [c.lineage for c in expected[0].calls]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["opencode.db"]


def test_a_database_that_is_none_of_sessions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE other (id TEXT)")
        made.execute(
            "CREATE VIEW part AS SELECT 1 AS id, 2 AS message_id, 3 AS session_id, 4 AS data"
        )
        made.commit()
    with pytest.raises(TraceError, match="no sessions in the database"):
        read(path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(TraceError, match="expected a readable database"):
        read(path)


def test_qwen_agent_messages_of_one_reply_are_one_call_and_doubt_stays() -> None:
    calls = fixture("qwen-agent/list.json").calls
    kinds = [part.kind for message in calls[0].completion or () for part in message.parts]
    assert kinds == ["reasoning", "tool_call", "tool_call"]
    assert said(calls[1])[-2:] == ["t:a is 1", "t:b is 2"]
    assert all("whether the harness shortened" in call.holes[-1].why for call in calls)


def test_a_folder_of_sessions_is_not_taken_for_one_session() -> None:
    with pytest.raises(TraceError, match=r"folder of files of the format codex.*openhands"):
        read(FIXTURES / "codex")


def test_openhands_token_ids_belong_to_the_call_before_them() -> None:
    events = json.loads((FIXTURES / "openhands" / "a-list.json").read_text())
    ids = {"prompt_token_ids": [1, 2, 3], "response_token_ids": [4], "source": "agent"}
    events.insert(6, {"id": "t1", "timestamp": "2026-03-01T10:00:00", "kind": "TokenEvent", **ids})
    first, second = read(json.dumps(events).encode()).rollouts[0].calls[:2]
    assert first.prompt_ids is not None
    assert first.completion_ids is not None
    assert (first.prompt_ids.tolist(), first.completion_ids.tolist()) == ([1, 2, 3], [4])
    assert (first.tokens, second.tokens) == ("recorded", "rendered")
