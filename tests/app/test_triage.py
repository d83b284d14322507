from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.demos import DEMOS
from mwviz.trace import load
from mwviz.verdict import judge
from mwviz_app import kept, memory, runs, sources, survey, triage
from tests.app.conftest import PATIENCE, press

BIDI = "\u202e"
pytestmark = pytest.mark.usefixtures("fresh_caches")


def triaged(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> AppTest:
    launch = serve.Launch(tuple(str(path) for path in paths))
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    return page.switch_page("triage_page.py").run()


def summary(page: AppTest) -> str:
    [found] = [text.value for text in page.text if text.value.startswith("rightmost trains tokens")]
    return str(found)


def write(path: Path, *calls: tuple[list[int], list[int]]) -> None:
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls]
    path.write_text("\n".join(lines))


def test_a_row_counts_what_each_naive_layout_trains_wrongly() -> None:
    (analysis,) = load(DEMOS[0].path).analyses
    row = triage.row(analysis)
    verdict = judge(analysis, "rightmost")
    assert row["calls"] == len(analysis.rollout.calls)
    assert row["evictions"] == sum(one.is_eviction for one in analysis.junction_list) > 0
    assert row["rightmost diverging"] == verdict.diverging > 0
    assert row["rightmost future"] == verdict.hit["future"]
    assert row["rightmost stale"] == 0
    assert row["replay stale"] != 0
    assert row["verdict"] == verdict.headline


def test_where_nothing_was_sampled_there_is_no_coverage() -> None:
    (nothing,) = load(b'{"prompt_ids": [1, 2], "completion_ids": []}').analyses
    (demo,) = load(DEMOS[0].path).analyses
    told = triage.table([triage.row(nothing), triage.row(demo)])
    assert told["rightmost coverage"].tolist()[0] == 1.0
    assert told["rightmost coverage"].isna().tolist() == [False, True]
    (alone,) = triage.table([triage.row(nothing)])["replay coverage"]
    assert np.isnan(alone)


def test_without_a_trace_the_demos_are_judged_the_worst_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = triaged(monkeypatch)
    assert not page.exception
    table = page.dataframe[0].value
    assert set(table["rollout"]) == {demo.name for demo in DEMOS}
    wrong = list(zip(table["rightmost diverging"], table["replay diverging"], strict=True))
    assert wrong == sorted(wrong, reverse=True)
    summed = [rightmost + replay for rightmost, replay in wrong]
    assert summed != sorted(summed, reverse=True)  # else it might be another order
    assert table.set_index("rollout").loc["control", "rightmost diverging"] == 0
    assert summary(page) == (
        f"rightmost trains tokens in a wrong context in {len(DEMOS) - 1} of {len(DEMOS)} rollouts."
    )


def test_a_folder_is_judged_and_a_broken_file_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "clean.jsonl", ([1, 2], [3]), ([1, 2, 3, 4], [5]))
    write(tmp_path / "evicts.jsonl", ([1, 2], [3, 4]), ([1, 3, 4], [5]))
    (tmp_path / f"<b>broken{BIDI}.jsonl").write_text("not json\n")
    page = triaged(monkeypatch, tmp_path)
    assert not page.exception
    table = page.dataframe[0].value
    assert table["trace"].iloc[0] == "evicts.jsonl"
    assert "<b>broken⟨U+202E⟩.jsonl" in list(table["trace"])
    [why] = [one for one in table["verdict"] if "broken" in one]
    assert why.startswith("<b>broken⟨U+202E⟩.jsonl:1: "), "the folder is named nowhere"
    assert summary(page).endswith("in 1 of 2 rollouts; 1 unreadable.")
    assert not [mark.value for mark in [*page.markdown, *page.caption] if "<b>" in mark.value]


def test_an_empty_folder_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = triaged(monkeypatch, tmp_path)
    assert not page.exception
    [told] = page.info
    assert told.value.startswith("What was named at the start holds no trace. These are the demos.")
    assert len(page.dataframe[0].value) == len(DEMOS)


def test_no_file_is_read_past_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", ([1, 2], [3]))
    (tmp_path / "b.jsonl").write_text("not json\n")
    launch = serve.Launch((str(tmp_path),))
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    assert [row["trace"] for _, row in survey.rollouts(1)] == ["a.jsonl"]
    assert [place is None for place, _ in survey.rollouts(2)] == [False, True]


def test_what_the_limit_leaves_out_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.jsonl", ([1, 2], [3]))
    launch = serve.Launch((str(tmp_path),))
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    assert len(list(survey.rollouts(1))) == 1
    assert survey.left_out(1) == survey.Left(0, 2)
    assert survey.left_out(3) == survey.Left(0, 0)
    page = triaged(monkeypatch, tmp_path)
    assert not [text.value for text in page.text if text.value.startswith("Not judged")]


def test_a_sentence_counts_the_rollouts_and_the_files_that_are_not_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = [{"rollout": f"r{n}", "prompt_ids": [1, 2], "completion_ids": [3]} for n in range(28)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, calls)))
    page = triaged(monkeypatch, tmp_path)
    told = [text.value for text in page.text if text.value.startswith("Not judged")]
    assert told == ["Not judged: 3 more rollouts of the last file. Raise the limit above."]
    write(tmp_path / "b.jsonl", ([1, 2], [3]))
    kept._named.clear()
    page.run()
    told = [text.value for text in page.text if text.value.startswith("Not judged")]
    assert [one.split(". ")[0] for one in told] == [
        "Not judged: 3 more rollouts of the last file and 1 more file"
    ]


def test_a_folder_that_is_cut_is_told_and_one_that_is_full_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sources, "MOST_TRACES", 2)
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
        for name in "ab":
            write(folder / f"{name}.jsonl", ([1, 2], [3]))
    page = triaged(monkeypatch, *folders)
    assert len(page.dataframe[0].value) == 4
    cut = "Of a folder its first 2 traces by name are offered."
    assert cut not in [text.value for text in page.text]
    write(folders[1] / "c.jsonl", ([1, 2], [3]))
    kept._named.clear()
    page.run()
    assert len(page.dataframe[0].value) == 4
    assert cut in [text.value for text in page.text]


def test_the_rollouts_of_a_file_that_the_limit_cuts_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "held", lambda _: kept.Held(tuple("abcd"), ""))
    assert survey.left_out(6) == survey.Left(2, len(DEMOS) - 2)


def test_a_pipe_in_a_folder_is_refused_and_never_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    write(tmp_path / "run.jsonl", ([1, 2], [3]))
    page = triaged(monkeypatch, tmp_path)
    assert summary(page).endswith("in 0 of 1 rollouts; 1 unreadable.")
    assert "is a pipe or a device" in "".join(map(str, page.dataframe[0].value["verdict"]))


def frame() -> pd.DataFrame:
    rows: list[triage.Row] = [
        {"trace": str(n), "evictions": n, "tokens": 100 * n, "rightmost diverging": n % 2}
        for n in range(10)
    ]
    return triage.table(rows)


def test_a_filter_keeps_what_lies_in_every_range_and_drops_what_is_not_known() -> None:
    whole = frame()
    assert sorted(triage.within(whole, {"evictions": (2.5, 5.5)})["evictions"]) == [3, 4, 5]
    both = {"evictions": (2.5, 5.5), "tokens": (400.0, 900.0)}
    assert sorted(triage.within(whole, both)["evictions"]) == [4, 5]
    assert not len(triage.within(whole, {"max |d|": (0.0, 1.0)}))
    assert len(triage.within(whole, {})) == len(whole)


def test_bars_hold_every_value_once_and_a_pick_covers_its_bars() -> None:
    counts = pd.Series([0.0, 1.0, 1.0, 7.0, 40.0, float("nan")])
    for whole in (True, False):
        at = triage.edges(counts, whole=whole)
        assert int(np.histogram(counts.dropna(), at)[0].sum()) == 5
        assert len(at) <= triage.BARS + 3
    at = triage.edges(counts, whole=True)
    low, high = triage.chosen_range([0, 1], at) or (0.0, 0.0)
    assert (low, high) == (at[0], at[2])
    assert triage.chosen_range([], at) is None
    assert triage.chosen_range([99], at) is None
    assert len(triage.edges(pd.Series([float("nan")]), whole=True)) == 2


def test_bars_of_shares_reach_from_none_to_the_largest_also_where_all_are_alike() -> None:
    for shares in ([1.0, 1.0], [0.25, 1.0]):
        at = triage.edges(pd.Series(shares), whole=False)
        assert (at[0], at[-1]) == (0.0, 1.0)
    none = triage.edges(pd.Series([0.0, 0.0]), whole=False)
    assert (none[0], none[-1]) == (0.0, 1.0)


def test_a_kept_slice_filters_and_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for n in range(3):
        calls = [([1, 2], [3, 4]), ([1, 3, 4], [5])][: n + 1]
        write(tmp_path / f"{n}.jsonl", *calls)
    memory.save_slice("<b>evicts", {"evictions": (0.5, 1.5)})
    page = triaged(monkeypatch, tmp_path)
    assert not page.exception
    assert len(page.dataframe[0].value) == 3
    assert "<b>evicts" in [text.value for text in page.text]
    press(page, "Use")
    assert list(page.dataframe[0].value["evictions"]) == [1, 1]
    assert "evictions 1" in "".join(text.value for text in page.text)
    press(page, "Clear")
    assert len(page.dataframe[0].value) == 3
    press(page, "Forget")
    assert memory.slices() == {}


def test_demos_show_the_drift_that_ships_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    table = triaged(monkeypatch).dataframe[0].value.set_index("rollout")
    mean, most = (table[name].to_dict() for name in ("mean |d|", "max |d|"))
    assert mean["busy"] > 0.1
    assert most["busy"] > 1
    assert mean["control"] == 0


def test_a_run_says_how_long_it_takes_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    page = triaged(monkeypatch)
    told = [text.value for text in page.text if "tokens through the model" in text.value]
    whole = sum(int(row["to score"]) for _, row in survey.rollouts(9))  # type: ignore[call-overload]
    assert f"{len(DEMOS)} rollouts, about {whole:,} tokens" in told[0]
    assert "exact method each): about " in told[0]
    seconds, twice = runs.seconds_for(1_000, None), runs.seconds_for(2_000, None)
    assert seconds is not None
    assert twice == pytest.approx(2 * seconds)
    assert runs.seconds_for(1_000, "never run") is None
