"""A log of messages, run from the Debug page, is shown in the tokens that the model reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import cli, load, serve, store
from mwviz.engine.model import load_reader
from mwviz_app import anchors, cards, pointed, state, studies, waiting, whose
from mwviz_app.jobs import JobState
from mwviz_app.state import Opened, Selection
from tests.app.conftest import PATIENCE, open_popover, press, waited
from tests.saved_model import save_chat_model

ASK, FIRST = ("user", "what is four"), ("assistant", "it is what four is")
THEN, SECOND = ("user", "is four what?"), ("assistant", "four is four")
SUMMARY, THIRD = ("user", "so far: four. what is it?"), ("assistant", "so far it is four")
CALLS = (((ASK,), FIRST), ((ASK, FIRST, THEN), SECOND), ((SUMMARY,), THIRD))


def message(said: tuple[str, str]) -> dict[str, str]:
    return {"role": said[0], "content": said[1]}


def log(calls: tuple[tuple[tuple[tuple[str, str], ...], tuple[str, str]], ...]) -> str:
    lines = [
        {"messages": [message(one) for one in prompt], "completion": [message(answer)]}
        for prompt, answer in calls
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


class Offered:
    """A log of messages and a chat model, both named at the start of the app."""

    def __init__(self, folder: Path) -> None:
        self.model, self.trace = folder / "chatty", folder / "said.jsonl"
        save_chat_model(self.model)
        self.trace.write_text(log(CALLS))


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offered]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Offered(tmp_path)
    launch = serve.Launch((str(made.trace),), (str(made.model),), "cpu")
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    st.cache_resource.clear()
    yield made
    state.worker().close()
    st.cache_resource.clear()


def run(page: AppTest, model: Path, method: str = "rightmost") -> AppTest:
    open_popover(page, "run")
    [models] = [box for box in page.selectbox if box.label == "Model" and str(model) in box.options]
    models.set_value(str(model))
    [methods] = [box for box in page.selectbox if box.label == "Method"]
    methods.set_value(method)
    return waited(press(page, "Run"))


def restart() -> None:
    """Forgets all that a server holds in memory."""
    state.worker().close()
    st.cache_resource.clear()


def said(page: AppTest) -> str:
    return "\n".join(text.value for text in page.text)


def shown(page: AppTest) -> Opened:
    """What the page shows, by what the session of the page and this server know."""
    known = "tokens" in page.session_state
    chosen = page.session_state["tokens"] if known else None
    first = Opened(next(iter(state.traces())), 0)
    offers = whose.options(first)
    return first._replace(tokens=chosen.tokens if chosen else offers[-1])


def test_a_run_shows_the_rollout_as_the_model_reads_it_and_scores_it_as_the_command_does(
    offered: Offered, capsys: pytest.CaptureFixture[str]
) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    page.run()
    given = load(offered.trace).analyses[0]
    assert "in a neutral form" in said(page)
    run(page, offered.model)
    assert not page.error
    assert "as the chat template of chatty renders them" in said(page)
    wanted = given.for_model(load_reader(offered.model))
    assert f"{wanted.tree.size:,} tokens by the template of chatty" in said(page)
    assert wanted.tree.size != given.tree.size

    mine = state.analysis(shown(page))
    assert mine.digest == wanted.digest != given.digest
    assert mine.decoder.decode(mine.tree.ids) == wanted.decoder.decode(wanted.tree.ids)
    assert mine.encoding.warnings == wanted.encoding.warnings
    assert [one.kind for one in mine.junction_list] == [one.kind for one in wanted.junction_list]

    before = store.usage()
    (key,) = [key for key in state.results(shown(page)) if key.method == "rightmost"]
    asked = f"score {offered.trace} --model {offered.model} --method rightmost --device cpu --json"
    assert cli.main(asked.split()) == 0
    assert store.usage() == before, "the command found what the app had scored"
    told = json.loads(capsys.readouterr().out)["rollouts"][0]
    assert told["rendering"] == "template of chatty"
    judged = state.comparisons(shown(page), next(iter(state.scored(shown(page)))), "logit_tree")
    drift = judged["rightmost"].drift().values["max_abs"]
    assert told["methods"]["rightmost"]["max_abs_drift"] == pytest.approx(drift, rel=1e-6)
    assert key.trace == wanted.digest


def test_the_neutral_form_is_a_choice_and_a_further_run_leads_back(offered: Offered) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    run(page.run(), offered.model)
    page.session_state["judged0"] = True
    page.run()
    [tokens] = [box for box in page.selectbox if box.label == "Tokens"]
    assert tokens.options == ["neutral, of no model", "as chatty reads it"]
    tokens.select(tokens.options[0]).run()
    assert not page.exception
    assert "in a neutral form" in said(page)
    assert page.text[1].value == "Drift: not run yet."
    run(page, offered.model)
    assert "as the chat template of chatty renders them" in said(page)


def test_the_selection_stays_at_its_words_when_the_tokens_change(offered: Offered) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
    given = load(offered.trace).analyses[0]
    texts = [given.decoder.text(given.tree.ids[[node]]) for node in given.tree.token]
    at = texts.index("so")
    place = cards.of_target(given, at)
    page.session_state["selection"] = place
    page.run()
    run(page, offered.model)
    after = page.session_state["selection"]
    mine = state.analysis(shown(page))
    assert after.call == place.call == 2
    node = mine.tree.token[after.target]
    assert mine.decoder.text(mine.tree.ids[[node]])[0] == "s"
    assert mine.tree.offset[after.target] == 0


def test_what_looks_into_one_token_is_asked_in_the_tokens_that_are_shown(offered: Offered) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
    run(page, offered.model, "replay")
    mine = state.analysis(shown(page))
    last = len(mine.tree.token) - 1
    page.session_state["view"] = "replay"
    page.session_state["selection"] = cards.of_target(mine, last)
    page.run()
    waited(press(page, "What causes this?"))
    (study,) = [job for job in state.worker().states() if job.job.kind == "causes"]
    assert study.status == "done", study.message
    assert study.job.tokens == mine.digest


def asked(kind: str) -> JobState:
    """The last question of a kind, once it is answered."""
    found = [one for one in state.worker().states() if one.job.kind == kind][-1]
    assert found.status == "done", found.message
    return found


def test_what_is_asked_before_any_run_runs_the_model_first_and_is_then_asked_of_the_same_words(
    offered: Offered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "model_of", lambda *_: str(offered.model))
    offered.trace.write_text(log((*CALLS[:2], ((ASK, SUMMARY), THIRD))))
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
    given = load(offered.trace).analyses[0]
    texts = [given.decoder.text(given.tree.ids[[node]]) for node in given.tree.token]
    page.session_state["selection"] = cards.of_target(given, texts.index("so"))
    press(page, "What causes this?")
    assert {one.job.kind for one in state.worker().states()} == {"score"}
    assert any("waits for the run above" in info.value for info in page.info)
    waited(page)  # the run ends and the question is asked
    waited(page)
    study = asked("causes")
    mine = state.analysis(shown(page))
    assert study.job.tokens == mine.digest != given.digest
    at = study.job.at or 0
    assert (int(mine.tree.call[at]), int(mine.tree.offset[at])) == (2, 0)
    assert mine.decoder.text(mine.tree.ids[[mine.tree.token[at]]])[0] == "s"
    assert not any("waits for the run above" in info.value for info in page.info)

    page.session_state["judged0"] = True
    page.run()
    [tokens] = [box for box in page.selectbox if box.label == "Tokens"]
    tokens.select(tokens.options[0]).run()
    press(page, "Undo this eviction")
    waited(page)
    waited(page)
    assert asked("undo").job.at == 0
    assert [one.call for one in mine.junction_list] == [2]


def test_a_question_that_was_refused_before_any_run_is_asked_again_behind_one(
    offered: Offered,
) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
    opened = Opened(next(iter(state.traces())), 0)
    studies.start(opened, "causes", "rightmost", str(offered.model), 0)
    waited(page)
    assert page.error[0].value == "The job failed."
    press(page, waiting.AGAIN)
    waited(page)
    waited(page)
    assert asked("causes").job.at == 0
    assert waiting.AGAIN not in [button.label for button in page.button]


def test_a_log_that_has_changed_since_is_not_shown_in_tokens_of_its_past(offered: Offered) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
    run(page, offered.model)
    offered.trace.write_text(log(CALLS[:2]))
    page.run()
    assert not page.exception
    assert "in a neutral form" in said(page)
    assert any("run it again" in info.value for info in page.info)


def test_a_segment_is_found_again_by_its_message(offered: Offered) -> None:
    given = load(offered.trace).analyses[0]
    wanted = given.for_model(load_reader(offered.model))
    spans = given.encoding.calls[1].spans
    node = given.tree.context(1)[spans[2].start]
    place = Selection(1, int(given.tree.segment_of(node)))
    anchor = anchors.anchored(given, place)
    assert anchor is not None
    found = anchors.translated(wanted, anchor)
    assert found is not None
    assert found.call == 1
    theirs = wanted.encoding.calls[1].spans
    (start,) = [one.start for one in theirs if one.message == anchor.message]
    assert found.segment == wanted.tree.segment_of(wanted.tree.context(1)[start])


def test_tokens_that_are_not_kept_are_not_offered(
    offered: Offered, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
    run(page, offered.model)
    read = shown(page)
    keys = state.results(read)
    assert read.tokens in whose.options(read.plain)
    for path in store.folder().glob("*.tokens.npz"):
        path.unlink()
    restart()
    monkeypatch.setattr(state, "results", lambda _: keys)
    assert whose.options(read.plain) == [None]


def test_a_link_to_a_model_leads_to_the_tokens_that_it_reads(offered: Offered) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
    run(page, offered.model)
    read = shown(page)
    (setup,) = state.scored(read)
    mine = state.analysis(read)
    last = int(mine.tree.offset[-1])
    fresh = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    for key, value in {
        "t": read.trace,
        "A": f"rightmost-{setup.id}",
        "call": 2,
        "tok": last,
    }.items():
        fresh.query_params[key] = str(value)
    fresh.run().run()
    assert not fresh.exception
    assert "as the chat template of chatty renders them" in said(fresh)
    chosen = fresh.session_state["selection"]
    assert mine.decoder.text(mine.tree.ids[[mine.tree.token[chosen.target]]]) == "<|im_end|>"


def copied(page: AppTest) -> dict[str, str]:
    """The parts of the address that *Copy link* writes."""
    press(page, "Copy link")
    told = page.query_params.items()
    return {key: value if isinstance(value, str) else value[0] for key, value in told}


def linked(parts: dict[str, str]) -> AppTest:
    """The page that a link leads to."""
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    for key, value in parts.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception
    return page


def test_a_link_into_the_tokens_of_a_model_outlasts_a_restart_and_says_if_they_are_gone(
    offered: Offered,
) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
    run(page, offered.model)
    mine = state.analysis(shown(page))
    place = cards.of_target(mine, len(mine.tree.token) - 1)
    page.session_state["selection"] = place
    link = copied(page)
    assert link["tk"].endswith(f"-{mine.digest}")

    restart()
    again = linked(link)
    assert "as the chat template of chatty renders them" in said(again)
    assert again.session_state["selection"] == place
    assert "chatty · float32 · floor" in said(again)
    assert not state.worker().states(), "nothing was run for it"

    restart()
    for path in store.folder().glob("*.npz"):
        path.unlink()
    lost = linked(link)
    assert "in a neutral form" in said(lost)
    assert lost.info[0].value.startswith(pointed.UNREAD)
    assert "selection" not in lost.session_state or lost.session_state["selection"] is None
    waited(press(lost, pointed.RUN))
    assert lost.session_state["selection"] == place
    assert not [info for info in lost.info if info.value.startswith(pointed.UNREAD)]

    other = linked({**link, "tk": f"{link['tk'].partition('-')[0]}-{'0' * 32}"})
    assert other.info[0].value.startswith(pointed.UNREAD)
    unknown = linked({**link, "tk": f"01234567-{mine.digest}"})
    assert "That model is not offered here" in unknown.info[0].value
