from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mwviz.errors import TraceError
from mwviz.formats import Reading, read
from mwviz.formats.claude_context import PLACEHOLDER, Session
from mwviz.formats.claude_rows import Row as FoundRow
from mwviz.formats.claude_rows import read_row
from mwviz.rollout import Call, Hint, Usage

CASES = Path(__file__).parents[1] / "data" / "cases"
Row = dict[str, Any]


def user(uuid: str, parent: str | None, content: object, **more: object) -> Row:
    message = {"role": "user", "content": content}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "message": message, **more}


def result(uuid: str, parent: str | None, tool: str, text: str, **more: object) -> Row:
    block = {"type": "tool_result", "tool_use_id": tool, "content": text}
    return user(uuid, parent, [block], **more)


def reply(
    uuid: str,
    parent: str | None,
    group: str,
    text: str = "",
    tools: tuple[str, ...] = (),
    **usage: Any,
) -> Row:
    content: list[Row] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": tool, "name": "Run", "input": {}} for tool in tools]
    message: Row = {"id": group, "role": "assistant", "model": "model-x", "content": content}
    if usage:
        message["usage"] = usage
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message}


def boundary(uuid: str, logical: str | None = None, **details: object) -> Row:
    return {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": uuid,
        "parentUuid": None,
        "logicalParentUuid": logical,
        "compactMetadata": {"trigger": "auto", "preTokens": 150_000, **details},
    }


def summary(uuid: str, parent: str) -> Row:
    return user(
        uuid, parent, f"summary {uuid}", isCompactSummary=True, isVisibleInTranscriptOnly=True
    )


def session(*rows: Row) -> Reading:
    return read("\n".join(json.dumps(row) for row in rows).encode())


def calls_of(reading: Reading) -> dict[str, Call]:
    (rollout,) = reading.rollouts
    return {call.id: call for call in rollout.calls}


def prompts(reading: Reading) -> dict[str, list[str | None]]:
    return {
        name: [message.id for message in call.prompt or ()]
        for name, call in calls_of(reading).items()
    }


def case(name: str) -> Reading:
    return read(CASES / name / "session.jsonl")


def test_h01_results_without_their_call_stay_and_are_named() -> None:
    reading = case("H01")
    assert prompts(reading) == {"m1": ["u1"], "m2": ["s1", "r2", "r3"]}
    assert calls_of(reading)["m2"].hints == (Hint("summary"),)
    (warning,) = [text for text in reading.warnings if "a call that is not in the trace" in text]
    assert warning.endswith("'t2' (line 6), 't3' (line 7)")


def test_h04_replayed_records_count_once() -> None:
    reading = case("H04")
    assert prompts(reading) == {"m1": ["u1"], "m2": ["s1", "u2"], "m3": ["s2", "u3"]}
    assert "2 replayed copies dropped (lines 7, 8)" in reading.warnings
    assert {call.lineage for call in calls_of(reading).values()} == {"main"}


def test_h06_a_missing_parent_starts_a_lineage() -> None:
    reading = case("H06")
    assert prompts(reading) == {"m1": ["u1"], "m2": ["u2"]}
    calls = calls_of(reading)
    assert (calls["m1"].lineage, calls["m2"].lineage) == ("main", "island@3")
    assert (calls["m1"].content, calls["m2"].content) == ("rebuilt", "partial")
    (warning,) = reading.warnings
    assert warning.startswith("line 3: its parent 'GONE' is not in the file")


def test_h06_file_order_links_islands_as_a_labelled_guess_when_asked() -> None:
    path = CASES / "H06" / "session.jsonl"
    reading = read(path, link=True)
    assert prompts(reading) == {"m1": ["u1"], "m2": ["u1", "m1", "u2"]}
    calls = calls_of(reading)
    assert {call.lineage for call in calls.values()} == {"main"}
    assert (calls["m1"].content, calls["m2"].content) == ("rebuilt", "partial")
    assert [hole.why for hole in calls["m2"].holes][-1].endswith("a guess")
    (warning,) = reading.warnings
    assert warning == (
        "1 record whose parent is not in the file is linked to the one before, a guess (line 3)"
    )
    with pytest.raises(TraceError, match="is of the format messages, expected claude-code"):
        read(b'{"role":"user","content":"a"}\n{"role":"assistant","content":"b"}', link=True)


def test_h16_records_of_one_message_are_one_call_with_all_its_results() -> None:
    reading = case("H16")
    assert prompts(reading) == {"m1": ["u1"], "m2": ["u1", "m1", "r2", "r1"]}
    first, second = calls_of(reading).values()
    assert first.completion is not None
    assert [p.kind for p in first.completion[0].parts] == [
        "reasoning",
        "text",
        "tool_call",
        "tool_call",
    ]
    assert first.usage == second.usage == Usage(10, 30, None)
    assert second.prompt is not None
    assert second.prompt[1] is first.completion[0]


def test_v08_rows_of_the_interface_are_walked_but_not_read() -> None:
    assert prompts(case("V08"))["m3"] == ["u1", "m1", "r1", "m2", "r2"]


def test_usage_is_the_largest_of_its_records() -> None:
    first = reply(
        "a1", "u1", "m1", "x", input_tokens=5, cache_read_input_tokens=20, output_tokens=1
    )
    last = reply(
        "a2", "a1", "m1", "y", input_tokens=5, cache_read_input_tokens=20, output_tokens=70
    )
    middle = reply("a3", "a2", "m1", "z", cache_creation_input_tokens=4, output_tokens=2)
    (call,) = calls_of(session(user("u1", None, "q"), first, last, middle)).values()
    assert call.usage == Usage(prompt=25, completion=70, cached=20)


def test_a_reply_the_harness_wrote_is_a_call_that_sampled_nothing() -> None:
    synthetic = reply("a1", "u1", "m1", "No response.", input_tokens=0, output_tokens=0)
    synthetic["message"]["model"] = "<synthetic>"
    reading = session(
        user("u1", None, "q"), synthetic, user("u2", "a1", "r"), reply("a2", "u2", "m2", "b")
    )
    call = calls_of(reading)["m1"]
    assert (call.completion, call.usage, call.finish) == ((), None, "not sampled")
    assert prompts(reading)["m2"] == ["u1", "m1", "u2"]


def test_only_attachments_that_are_sent_count_as_context() -> None:
    reminder = {"type": "task_reminder", "content": [{"text": "t"}]}
    queued = {"type": "queued_command", "prompt": "also do this"}
    reading = session(
        user("u1", None, "q"),
        {"type": "attachment", "uuid": "h1", "parentUuid": "u1", "attachment": reminder},
        {
            "type": "attachment",
            "uuid": "h2",
            "parentUuid": "h1",
            "attachment": {"type": "hook_success"},
        },
        {"type": "attachment", "uuid": "h3", "parentUuid": "h2", "attachment": queued},
        {
            "type": "attachment",
            "uuid": "h4",
            "parentUuid": "h3",
            "attachment": {"type": "new_kind"},
        },
        user("u2", "h4", "injected", isMeta=True),
        user("u3", "u2", "shown only", isVisibleInTranscriptOnly=True),
        reply("a1", "u3", "m1", "x"),
    )
    assert prompts(reading)["m1"] == ["u1", "h1", "h3", "u2"]
    prompt = calls_of(reading)["m1"].prompt
    assert prompt is not None
    assert [message.mark for message in prompt] == [None, "reminder", "reminder", None]
    assert prompt[2].text == "also do this"
    assert "1 attachment of the unknown type 'new_kind'" in reading.warnings[0]


def test_attachments_below_a_parallel_result_are_context_too() -> None:
    extra = {"type": "hook_additional_context", "content": "note"}
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", tools=("t1",)),
        reply("a2", "a1", "m1", tools=("t2",)),
        result("r1", "a1", "t1", "one"),
        {"type": "attachment", "uuid": "h1", "parentUuid": "r1", "attachment": extra},
        result("r2", "a2", "t2", "two"),
        reply("a3", "r2", "m2", "end"),
    )
    assert prompts(reading)["m2"] == ["u1", "m1", "r1", "h1", "r2"]


def test_a_result_is_found_by_the_record_it_names() -> None:
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", tools=("t1",)),
        reply("a2", "a1", "m1", tools=("t2",)),
        user("r1", "a1", "plain text result", sourceToolAssistantUUID="a1"),
        result("r2", "a2", "t2", "two"),
        reply("a3", "r2", "m2", "end"),
    )
    assert prompts(reading)["m2"] == ["u1", "m1", "r1", "r2"]


def test_cleared_results_read_as_placeholders_from_the_record_on() -> None:
    micro = {
        "type": "system",
        "subtype": "microcompact_boundary",
        "uuid": "b1",
        "parentUuid": "r2",
        "microcompactMetadata": {"compactedToolIds": ["t1"], "tokensSaved": 12345},
    }
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", tools=("t1",)),
        result("r1", "a1", "t1", "long text"),
        reply("a2", "r1", "m2", tools=("t2",)),
        result("r2", "a2", "t2", "kept"),
        micro,
        reply("a3", "b1", "m3", tools=("t1",)),
        result("r3", "a3", "t1", "the same id again"),
        reply("a4", "r3", "m4", "end"),
    )
    before, at, after = (calls_of(reading)[name] for name in ("m2", "m3", "m4"))
    assert before.prompt is not None
    assert at.prompt is not None
    assert after.prompt is not None
    assert before.prompt[2].text == "long text"
    assert at.prompt[2].text == after.prompt[2].text == PLACEHOLDER
    assert at.prompt[2].id != before.prompt[2].id
    assert at.prompt[2].mark == "placeholder"
    assert at.prompt[4].text == "kept"
    assert after.prompt[6].text == "the same id again"
    assert at.prompt[2] is after.prompt[2]
    assert [h.kind for h in at.hints] == ["placeholder"]
    assert "12,345" in at.hints[0].detail
    assert (before.hints, after.hints) == ((), ())


def preserving(**details: object) -> Reading:
    return session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", tools=("t1",)),
        result("r1", "a1", "t1", "one"),
        reply("a2", "r1", "m2", "two"),
        user("u2", "a2", "more"),
        boundary("b1", "u2", **details),
        summary("s1", "b1"),
        user("u3", "s1", "next"),
        reply("a3", "u3", "m3", "three"),
    )


def test_a_preserved_segment_moves_behind_the_summary() -> None:
    segment = {"headUuid": "a2", "anchorUuid": "s1", "tailUuid": "u2"}
    reading = preserving(preservedSegment=segment)
    assert prompts(reading)["m3"] == ["s1", "m2", "u2", "u3"]
    assert [hint.kind for hint in calls_of(reading)["m3"].hints] == ["summary_tail"]


def test_preserved_messages_supersede_the_segment() -> None:
    listed = {"anchorUuid": "s1", "uuids": ["u2", "r1"], "allUuids": []}
    segment = {"headUuid": "a2", "anchorUuid": "s1", "tailUuid": "u2"}
    reading = preserving(preservedMessages=listed, preservedSegment=segment)
    assert prompts(reading)["m3"] == ["s1", "r1", "u2", "u3"]


def test_a_segment_whose_records_are_gone_preserves_nothing() -> None:
    segment = {"headUuid": "x", "anchorUuid": "s1", "tailUuid": "y"}
    reading = preserving(preservedSegment=segment)
    assert prompts(reading)["m3"] == ["s1", "u3"]
    assert [hint.kind for hint in calls_of(reading)["m3"].hints] == ["summary"]


def test_what_was_preserved_once_can_be_preserved_again() -> None:
    first = {"headUuid": "a1", "anchorUuid": "s1", "tailUuid": "a1"}
    second = {"headUuid": "a1", "anchorUuid": "s2", "tailUuid": "a2"}
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", "one"),
        boundary("b1", "a1", preservedSegment=first),
        summary("s1", "b1"),
        reply("a2", "s1", "m2", "two"),
        boundary("b2", "a2", preservedSegment=second),
        summary("s2", "b2"),
        reply("a3", "s2", "m3", "three"),
    )
    assert prompts(reading) == {"m1": ["u1"], "m2": ["s1", "m1"], "m3": ["s2", "m1", "m2"]}


def test_many_generations_that_preserve_each_other_are_read() -> None:
    rows = [user("u0", None, "q"), reply("a0", "u0", "m0", "x")]
    for n in range(1, 1500):
        kept = {"headUuid": f"a{n - 1}", "anchorUuid": f"s{n}", "tailUuid": f"a{n - 1}"}
        rows += [boundary(f"b{n}", f"a{n - 1}", preservedSegment=kept), summary(f"s{n}", f"b{n}")]
        rows += [reply(f"a{n}", f"s{n}", f"m{n}", "x")]
    assert prompts(session(*rows))["m1499"] == ["s1499", "m1498"]


def test_a_compaction_whose_predecessor_is_gone_continues_by_file_order() -> None:
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", "one"),
        boundary("b1", "NOT-THERE"),
        summary("s1", "b1"),
        reply("a2", "s1", "m2", "two"),
    )
    assert {call.lineage for call in calls_of(reading).values()} == {"main"}
    assert any("by file order it follows line 2" in text for text in reading.warnings)
    assert [hint.kind for hint in calls_of(reading)["m2"].hints] == ["summary"]


def test_rewinding_past_a_compaction_repeats_no_hint() -> None:
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", "one"),
        boundary("b1", "a1"),
        summary("s1", "b1"),
        reply("a2", "s1", "m2", "two"),
        user("u2", "a1", "other way"),
        reply("a3", "u2", "m3", "three"),
        user("u3", "s1", "again"),
        reply("a4", "u3", "m4", "four"),
    )
    assert {name: len(call.hints) for name, call in calls_of(reading).items()} == {
        "m1": 0,
        "m2": 1,
        "m3": 0,
        "m4": 0,
    }
    assert prompts(reading)["m3"] == ["u1", "m1", "u2"]


def test_sub_agents_in_the_file_are_lineages() -> None:
    side = [user("x1", None, "task", agentId="ag7"), reply("y1", "x1", "n1", "done")]
    old = [user("x2", None, "task"), reply("y2", "x2", "n2", "done")]
    for row in side + old:
        row["isSidechain"] = True
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", tools=("t1",)),
        *side,
        *old,
        result("r1", "a1", "t1", "done"),
        reply("a2", "r1", "m2", "end"),
    )
    lineages = {name: call.lineage for name, call in calls_of(reading).items()}
    assert lineages == {"m1": "main", "n1": "ag7", "n2": "sidechain@5", "m2": "main"}
    assert prompts(reading)["m2"] == ["u1", "m1", "r1"]


def test_sub_agent_files_are_read_by_plain_name_only(tmp_path: Path) -> None:
    def stamped(rows: list[Row], *, at: int, own: str = "s") -> str:
        times = {"sessionId": own}
        return "\n".join(
            json.dumps({**row, **times, "timestamp": f"2026-01-01T00:00:{at + n:02}Z"})
            for n, row in enumerate(rows)
        )

    main = [user("u1", None, "q"), reply("a1", "u1", "m1", tools=("t1",))]
    later = [result("r1", "a1", "t1", "done"), reply("a2", "r1", "m2", "end")]
    file = tmp_path / "s.jsonl"
    file.write_text(stamped(main, at=0) + "\n" + stamped(later, at=30))
    folder = tmp_path / "s" / "subagents"
    folder.mkdir(parents=True)
    inside = [user("x1", None, "task"), reply("y1", "x1", "n1", "done")]
    beside = [user("x2", None, "task"), reply("y2", "x2", "n2", "done")]
    (folder / "agent-in.jsonl").write_text(stamped(inside, at=10))
    (tmp_path / "agent-beside.jsonl").write_text(stamped(beside, at=20))
    (tmp_path / "agent-other.jsonl").write_text(stamped(beside, at=20, own="another session"))
    secret = tmp_path / "secret.jsonl"
    secret.write_text(stamped([user("x3", None, "t"), reply("y3", "x3", "n3", "d")], at=20))
    (folder / "agent-link.jsonl").symlink_to(secret)
    lineages = {name: call.lineage for name, call in calls_of(read(file)).items()}
    assert list(lineages.items()) == [
        ("m1", "main"),
        ("n1", "agent-in"),
        ("n2", "agent-beside"),
        ("m2", "main"),
    ]


def test_records_without_ids_follow_the_record_above() -> None:
    rows = [
        user("", None, "q"),
        reply("", "", "m1", "one"),
        user("", None, "more"),
        reply("", "", "m2", "x"),
    ]
    for row in rows:
        del row["uuid"], row["parentUuid"]
        row["sessionId"] = "s"
    assert prompts(session(*rows))["m2"] == ["line-1", "m1", "line-3"]


@pytest.mark.parametrize("parent", ["u1", "a1"])
def test_a_chain_that_runs_in_circles_ends(parent: str) -> None:
    reading = session(
        user("u1", "a1", "q"), reply("a1", parent if parent == "a1" else "u1", "m1", "x")
    )
    assert list(prompts(reading)) == ["m1"]


def test_a_boundary_that_names_itself_ends() -> None:
    reading = session(boundary("b1", "b1"), summary("s1", "b1"), reply("a1", "s1", "m1", "x"))
    assert prompts(reading)["m1"] == ["s1"]
    assert calls_of(reading)["m1"].hints == ()


def test_text_the_file_lacks_is_a_hole_with_its_size() -> None:
    def grown(before: int, n: int) -> dict[str, Any]:
        return {"input_tokens": before + n * 1000, "output_tokens": 10}

    rows = [user("u1", None, "a" * 2500), reply("a1", "u1", "m1", "b" * 100, **grown(21_000, 0))]
    parent = "a1"
    for n in range(1, 6):
        rows += [
            user(f"v{n}", parent, "c" * 2400),
            reply(f"w{n}", f"v{n}", f"k{n}", "d" * 100, **grown(21_000, n)),
        ]
        parent = f"w{n}"
    after = reply("a2", "s1", "m2", "e", input_tokens=30_000, output_tokens=5)
    rows += [boundary("b1", parent), summary("s1", "b1"), after]
    calls = calls_of(session(*rows))
    (system,) = calls["m1"].holes
    assert system.tokens == pytest.approx(20_000, abs=300)
    assert calls["m1"].content == "rebuilt"
    known, attached = calls["m2"].holes
    assert known.tokens == system.tokens
    assert attached.tokens == pytest.approx(10_000, abs=300)
    assert attached.after == "s1"
    assert calls["m2"].content == "partial"


def test_empty_thinking_makes_a_call_partial() -> None:
    thinking = reply("a1", "u1", "m1", "x")
    thinking["message"]["content"].insert(0, {"type": "thinking", "thinking": "", "signature": "s"})
    (call,) = calls_of(session(user("u1", None, "q"), thinking)).values()
    assert call.content == "partial"
    assert "thinking text is empty in the file" in [hole.why for hole in call.holes]


def test_a_uuid_with_other_content_keeps_the_first_and_says_so() -> None:
    reading = session(
        user("u1", None, "q"), user("u1", None, "other"), reply("a1", "u1", "m1", "x")
    )
    prompt = calls_of(reading)["m1"].prompt
    assert prompt is not None
    assert prompt[0].text == "q"
    assert (
        "1 record repeats a uuid with other content; the first is kept (line 2)" in reading.warnings
    )


def test_records_with_wrong_types_are_dropped_and_named() -> None:
    bad = user("u2", "u1", 17)
    reading = session(user("u1", None, "q"), bad, reply("a1", "u1", "m1", "x"))
    assert [(d.line, d.what) for d in reading.damage] == [
        (2, "content is 17, expected a string or a list of blocks")
    ]
    assert prompts(reading) == {"m1": ["u1"]}


@st.composite
def tangled(draw: st.DrawFn) -> list[Row]:
    """Records that hang on one another in any way, as broken writers leave them."""
    count = draw(st.integers(1, 14))
    names = [f"n{at}" for at in range(count)]
    rows: list[Row] = []
    for at, name in enumerate(names):
        usual = names[max(0, at - 2) : at]
        parent = draw(st.sampled_from([*usual, *usual, *names, None, "gone"]))
        tool = draw(st.sampled_from(["t0", "t1", "t2"]))
        kind = draw(
            st.sampled_from(["user", "reply", "reply", "result", "result", "other", "micro"])
        )
        if kind == "user":
            row = user(name, parent, f"text {at}", isMeta=draw(st.booleans()))
        elif kind == "reply":
            row = reply(
                name, parent, draw(st.sampled_from(["g0", "g1", f"own{at}"])), tools=(tool,)
            )
        elif kind == "result":
            row = result(name, parent, tool, f"out {at}")
        elif kind == "other":
            row = {"type": "progress", "uuid": name, "parentUuid": parent}
        else:
            row = {
                "type": "system",
                "subtype": "microcompact_boundary",
                "uuid": name,
                "parentUuid": parent,
                "microcompactMetadata": {"compactedToolIds": [tool]},
            }
        rows.append(row)
    return draw(st.permutations(rows)) if draw(st.booleans()) else rows


def found_rows(rows: list[Row]) -> list[FoundRow]:
    read_rows = (read_row(row, line, before=None) for line, row in enumerate(rows, 1))
    return [row for row in read_rows if row]


@given(tangled())
def test_a_continued_context_equals_one_made_anew(rows: list[Row]) -> None:
    one = Session(found_rows(rows))
    for group in sorted(one.groups.values(), key=lambda members: members[0].line):
        fresh = Session(found_rows(rows))
        left = one.context(group[0])
        right = fresh.context(fresh.rows[group[0].uuid])
        assert [entry.message for entry in left] == [entry.message for entry in right]


@given(tangled())
def test_tangled_records_lose_no_call_and_no_message_in_silence(rows: list[Row]) -> None:
    groups = {row["message"]["id"] for row in rows if row["type"] == "assistant"}
    if not groups:
        return
    reading = session(*rows)
    calls = calls_of(reading)
    assert set(calls) == groups
    held = {
        m.id for call in calls.values() for m in (*(call.prompt or ()), *(call.completion or ()))
    }
    said = {row["uuid"] for row in rows if row["type"] == "user"}
    missing = len({name for name in said if name not in held and f"{name}#cleared" not in held})
    told = [text for text in reading.warnings if "in no call's context" in text]
    assert bool(told) == bool(missing)
    words = "message is" if missing == 1 else "messages are"
    assert not told or told[0].startswith(f"{missing} {words} in no call's context (line")


def test_a_result_that_came_after_the_next_call_began_is_read_by_later_calls() -> None:
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", tools=("t1", "t2")),
        result("r1", "a1", "t1", "one"),
        reply("a2", "r1", "m2", "meanwhile"),
        result("r2", "a1", "t2", "two"),
        user("u2", "a2", "go on"),
        reply("a3", "u2", "m3", "end"),
    )
    assert prompts(reading)["m2"] == ["u1", "m1", "r1"]
    assert prompts(reading)["m3"] == ["u1", "m1", "r1", "m2", "r2", "u2"]


def test_a_context_is_in_file_order_also_where_a_call_continues_another() -> None:
    rows = [
        user("u1", None, "q"),
        reply("a2", "a1", "m2", "two"),
        user("u2", "a2", "more"),
        reply("a3", "u2", "m3", "three"),
        reply("a1", "u1", "m1", "one"),
    ]
    assert prompts(session(*rows))["m3"] == ["u1", "m2", "u2", "m1"]


def test_a_sub_agent_below_a_result_is_no_part_of_the_main_context() -> None:
    reading = session(
        user("u1", None, "q"),
        reply("a1", "u1", "m1", tools=("t1",)),
        result("r1", "a1", "t1", "one"),
        user("x1", "r1", "for the sub-agent", isMeta=True, isSidechain=True),
        reply("a2", "r1", "m2", "end"),
    )
    assert prompts(reading)["m2"] == ["u1", "m1", "r1"]


def test_a_compaction_that_stands_behind_what_follows_it_ends_no_circle() -> None:
    reading = session(
        summary("s1", "b1"),
        boundary("b1"),
        reply("a1", "s1", "m1", "after"),
    )
    assert [call.lineage for call in calls_of(reading).values()] == ["main"]
