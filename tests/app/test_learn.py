from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bench import make_words
from mwviz import serve
from mwviz.engine import embedded
from mwviz.figures import LIGHT
from mwviz.judging import COUNTED
from mwviz.tokenizer import embedded_tokenizer
from mwviz.verdict import refusal
from mwviz.views import METHODS
from mwviz_app import example, glossary, measured
from tests.app.conftest import PATIENCE

SAME = 1e-3  # nats; float32 on another machine's cores
THEORY = Path(__file__).parents[2] / "docs" / "theory.md"


def learn(step: str) -> AppTest:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    page.switch_page("learn_page.py").run()
    [steps] = [group for group in page.button_group if group.label == "Step"]
    steps.set_value([step] if isinstance(steps.value, list) else step).run()
    assert not page.exception
    return page


def said(page: AppTest) -> str:
    return "\n".join([*(text.value for text in page.text), *(code.value for code in page.code)])


def test_the_example_is_24_words_with_one_eviction_that_keeps_a_tail() -> None:
    analysis = example.example()
    assert len(example.WORDS) == len(analysis.tree.birth) == 24
    assert [(j.call, j.kind) for j in analysis.junction_list] == [(3, "summary_tail")]


@pytest.mark.parametrize("step", example.STEPS, ids=lambda step: step.name)
def test_every_step_tells_what_it_shows(step: example.Step) -> None:
    told = said(learn(step.name))
    assert all(sentence in told for sentence in step.told)
    assert "row 0" in told if step.lays_out else "call 3   Answer" in told


def test_the_leak_is_named_for_a_word_under_either_layout() -> None:
    page = learn("3 Leak")
    assert "It sees 7 tokens that had already left its context." in said(page)
    assert "Log p of 'Norway': -6.1 nats where the agent sampled it, -3.6 under replay." in said(
        page
    )
    assert "Drift: +2.4 nats." in said(page)
    [layout] = [group for group in page.button_group if group.label == "Layout"]
    layout.set_value("rightmost").run()
    assert not page.exception
    assert "It sees 3 tokens written after it: time travel." in said(page)
    page.selectbox[0].set_value("call 0: find").run()
    assert "rightmost does not train this word" in said(page)


@pytest.mark.embedded
def test_the_drift_of_the_words_is_that_of_the_embedded_model() -> None:
    """Measured again here; the words are single tokens of its tokenizer."""
    if embedded.path() is None:
        pytest.skip("needs the embedded model: mwviz doctor --install-model")
    tokenizer = embedded_tokenizer()
    assert tokenizer is not None
    pieces = [tokenizer.piece(token) or b"" for token in example.TOKENS]
    assert [piece.decode().strip() for piece in pieces] == list(example.WORDS)
    again, kept = make_words.measure(), measured.measured()
    assert again["model"] == kept.model
    for method, logprob in kept.logprob.items():
        found = np.array(again["logprob"][method], dtype=np.float64)
        np.testing.assert_allclose(found, logprob, atol=SAME)


def test_only_exact_layouts_have_no_drift_on_the_words() -> None:
    for method in example.COMPARED:
        largest = np.nanmax(np.abs(measured.drift(method)))
        assert (largest > 1) if method in example.NAIVE else (largest < SAME), method
        trained = ~np.isnan(measured.drift(method))
        assert trained.tolist() == (example.example().view(method).multiplicity > 0).tolist()
    assert measured.told("rightmost", 0, "find") == ""
    assert "largest drift of packed_mask is 0.0000" in said(learn("4 Fix"))


def test_a_row_shows_which_words_train() -> None:
    assert example.rows("rightmost") == (
        "row 0    Answer briefly where does Ada live ⟦Ada in Oslo find Oslo⟧ "
        "Oslo lies in Norway ⟦Norway Done⟧"
    )


@pytest.mark.parametrize(
    ("method", "target", "leak", "words"),
    [
        ("rightmost", 3, "future", ["Ada in Oslo"]),
        ("rightmost", 3, "erased", ["Ada moved to Oslo", "find Ada"]),
        ("replay", 7, "stale", ["Ada moved to Oslo", "find Ada", "summary"]),
    ],
)
def test_causes_quote_the_words_that_leak(
    method: str, target: int, leak: str, words: list[str]
) -> None:
    causes = example.causes(method, target)
    assert list(causes[causes["class"] == leak]["words"]) == words


def test_exact_layouts_have_no_wrong_cell_and_the_packed_row_is_shorter_than_all_calls() -> None:
    table = example.budget().set_index("method")
    exact = table[table["exact"] == "yes"]
    assert (exact["wrong cells"] == 0).all()
    assert (table[table["exact"] == "no"]["wrong cells"] > 0).all()
    assert table["words fed"]["packed_mask"] < table["words fed"]["call_by_call"]


@pytest.mark.parametrize("method", example.COMPARED)
def test_every_cell_of_the_mask_carries_the_letter_of_its_class(method: str) -> None:
    heatmap = example.mask(method, LIGHT).data[0]
    assert heatmap.z.shape == (9, 24)
    letters = set(heatmap.text[heatmap.z > 0].tolist())
    assert letters <= {"F", "E", "S", ""}
    assert (letters != {""}) == (method in example.NAIVE)


def test_the_glossary_has_every_word_of_the_theory_every_class_and_every_method() -> None:
    text = THEORY.read_text()
    table = re.findall(r"^\| ([\w, ]+) \|", text.split("**Junction.**")[0], re.MULTILINE)
    named = {word for row in table for word in row.split(", ")} - {"word"}
    assert named <= set(glossary.words()["word"])
    assert set(COUNTED) <= set(glossary.classes()["class"])
    assert list(glossary.methods()["method"]) == [method.name for method in METHODS]
    kinds = text.split("**Junction.**")[1].split("**Identity.**")[0]
    known = set(glossary.kinds()["junction"])
    assert {kind for kind in known if f"`{kind}`" not in kinds} == set()


def test_the_one_method_that_refuses_the_example_is_not_compared() -> None:
    refused = [m.name for m in METHODS if refusal(example.example(), m.name)]
    assert not set(refused) & set(example.COMPARED)
