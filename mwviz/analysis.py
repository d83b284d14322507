"""The facade: a rollout to its tree, junctions, views, pairs, scores and comparisons."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mwviz import scorer, tokens
from mwviz.batch import read_batch
from mwviz.compare import Comparison, compare
from mwviz.engine.scores import Scores
from mwviz.engine.steps import Step, finish
from mwviz.errors import ModelError
from mwviz.evidence import Evidence, evidence
from mwviz.junctions import Junction, find_junctions, junction_table
from mwviz.pairs import Pairs, count_pairs
from mwviz.readers import Reader, own_tokens, reads, told
from mwviz.rendering import RECORDED
from mwviz.retokenised import retokenised
from mwviz.rollout import Rollout
from mwviz.scorer import EXACT
from mwviz.temperature import needs_tempering, temperatures
from mwviz.templates import has_template
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import View, build_view
from mwviz.views.own import OwnView, own_view
from mwviz.wording import counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from mwviz.engine.divergence import Divergence
    from mwviz.engine.model import Model


def analyse(rollout: Rollout) -> Analysis:
    """The analysis of one rollout, wherever it came from."""
    return Analysis(rollout)


class Analysis:
    """Everything that follows from one rollout. Computed when asked for, then kept."""

    def __init__(
        self,
        rollout: Rollout,
        *,
        tokenizer: str | None = None,
        encoding: tokens.Encoding | None = None,
        reader: str | None = None,
    ) -> None:
        """`encoding` stands for the rollout's tokens, which `reader` (`Reader.base`) reads so."""
        self.rollout = rollout
        self._encoding = encoding
        self._reader = reader
        self._fitting: Analysis | None = None
        self.scores: dict[str, Scores] = {}
        """Scores of this session, by method; all by the model scored with last."""
        self.batches: dict[str, OwnView] = {}
        """Trainers' batches that were aligned, by the name of their view."""
        self._tokenizer = tokenizer
        self._views: dict[str, View] = {}
        self._pairs: dict[str, Pairs] = {}
        self.model: Model | None = None
        """The model scored with last."""

    @cached_property
    def encoding(self) -> tokens.Encoding:
        """The rollout as token ids: the recorded ones, else rendered from its messages."""
        return self._encoding or tokens.encode(self.rollout, self._tokenizer)

    @cached_property
    def decoder(self) -> tokens.Decoder:
        """Token ids to text, as far as the tokenizer is known."""
        return tokens.Decoder(self.encoding)

    @cached_property
    def tree(self) -> EvictionTree:
        """The eviction tree."""
        return build_tree(self.encoding, self.rollout)

    @cached_property
    def junction_list(self) -> tuple[Junction, ...]:
        """Every place where a context was changed, in call order."""
        decode = self.decoder.text if self.decoder.known else None
        return find_junctions(self.tree, self.encoding, self.rollout, decode)

    @cached_property
    def evidence(self) -> Evidence:
        """What reported token counts and recorded ids say of the contexts as they were rebuilt."""
        again = retokenised(self.encoding, self.decoder.tokenizer)
        return evidence(self.tree, self.rollout, self.junction_list, again)

    @property
    def junctions(self) -> pd.DataFrame:
        """One row a junction, sizes in tokens; columns: `junctions.COLUMNS`."""
        return junction_table(self.junction_list)

    @cached_property
    def digest(self) -> str:
        """Hex digest of all that scores depend on: tokens, their calls, temperatures but 1."""
        digest = hashlib.blake2b(digest_size=16)
        for call in self.encoding.calls:
            digest.update(f"{call.prompt_length} {len(call.completion)}\n".encode())
            digest.update(call.context.astype("<i4").tobytes())
        if needs_tempering(self.temperature):
            digest.update(self.temperature.astype("<f4").tobytes())
        return digest.hexdigest()

    @cached_property
    def temperature(self) -> npt.NDArray[np.float32]:
        """float32 (M,): at which each target was sampled, NaN where none above 0 is recorded."""
        return temperatures(self.tree, self.rollout)

    def view(self, method: str) -> View:
        """How one method lays the rollout out.

        Raises:
            ViewError: no method has this name.
        """
        if method not in self._views:
            self._views[method] = build_view(self.tree, method)
        return self._views[method]

    def add_batch(self, path: str | Path) -> OwnView:
        """Aligns a trainer's batch; its view then answers to the file's name, like a method.

        Of a file whose samples name their rollouts, those of another one are left out.

        Raises:
            TraceError: the file is not a batch that can be read.
        """
        own = own_view(self.tree, read_batch(path, rollout=self.rollout.id), Path(path).name)
        self._views[own.view.method] = own.view
        self.batches[own.view.method] = own
        return own

    def pairs(self, method: str) -> Pairs:
        """Who sees what under one method."""
        if method not in self._pairs:
            self._pairs[method] = count_pairs(self.tree, self.view(method))
        return self._pairs[method]

    def let_go(self, name: str) -> None:
        """Drop a method's view and pairs, which are large; they are made anew when asked for."""
        if name not in self.batches:
            self._views.pop(name, None)
        self._pairs.pop(name, None)

    def for_model(self, reader: Reader) -> Analysis:
        """This analysis, or one in the tokens that a model reads.

        Recorded ids stay with the model whose tokenizer made them. Everything else is rendered by
        the model's own chat template, call by call, as each would be sent; the encoding names the
        rendering and the template's traps. Views, pairs and scores are then those of that tree.

        Args:
            reader: a loaded model, or its tokenizer alone.

        Raises:
            ModelError: there is no text to render again, or a trainer's batch was aligned here.
            SetupError: nothing here has the model's tokenizer.
        """
        if self._is_for(reader):
            return self
        if not told(self.rollout):
            raise ModelError(
                f"{reader.name} cannot score rollout {self.rollout.id!r}: its ids were made with "
                f"{self.encoding.tokenizer!r} and it has no text to render again"
            )
        if self.batches:
            raise ModelError(
                f"{', '.join(self.batches)} was aligned to other tokens than those of "
                f"{reader.name}: add the batch to analysis.for_model(model)"
            )
        if self._fitting is None or self._fitting._reader != reader.base:
            plain = tokens.without_ids(self.rollout)
            self._fitting = Analysis(plain, encoding=own_tokens(plain, reader), reader=reader.base)
        return self._fitting

    def _is_for(self, reader: Reader) -> bool:
        """Whether these are the tokens that the model reads."""
        if self._reader is not None:
            return self._reader == reader.base
        if not reads(reader, self.encoding):
            return False
        recorded = self.encoding.rendering == RECORDED
        return recorded or not (told(self.rollout) and has_template(reader.tokenizer))

    def scoring(
        self, model: Model, method: str = EXACT, *, kernel: str = "auto"
    ) -> Iterator[Step[Scores]]:
        """Steps of scoring one method, kept on disk; the last step carries the scores.

        Args:
            model: must read these tokens: see `for_model`.
            method: a method's name, or `exact` for the cheapest exact one.
            kernel: attention kernel, `auto` to choose.

        Raises:
            ModelError: the model cannot score this; says which method works instead.
            ViewError: no method has this name.
        """
        if not self._is_for(model):
            raise ModelError(
                f"the tokens of rollout {self.rollout.id!r} are not as {model.name} reads them; "
                "score analysis.for_model(model)"
            )
        if self.model is not None and self.model.label != model.label:
            self.scores.clear()
        self.model = model
        yield from scorer.scoring(self, model, method, kernel=kernel)

    def resolve(self, model: Model, method: str) -> str:
        """The method that a name stands for on this tree and model.

        Raises:
            ViewError: no method has this name, or no row can express how the cache was treated.
        """
        return scorer.resolve(self, model, method)

    def score(self, model: Model | str, method: str = EXACT, *, kernel: str = "auto") -> Scores:
        """Log-probabilities of all targets that a method covers; see `scoring`."""
        return finish(self.scoring(scorer.loaded(model), method, kernel=kernel))

    def compare(
        self, method: str, against: str = EXACT, *, model: Model | str | None = None
    ) -> pd.DataFrame:
        """One row a target: the method against the true contexts. Columns: `compare.COLUMNS`."""
        return self.comparison(method, against, model=model).table

    def comparison(
        self, method: str, against: str = EXACT, *, model: Model | str | None = None
    ) -> Comparison:
        """One method against the true contexts, scoring what is not scored yet.

        Everything is in the tokens that the model reads: see `for_model`.

        Args:
            method: the view to judge.
            against: an exact method, the reference.
            model: None takes the one scored with last, else the embedded one.
        """
        judge = self._judge(model)
        fitting = self.for_model(judge)
        reference = fitting.score(judge, against)
        return fitting.compared(fitting.score(judge, method), reference)

    def divergence(
        self, method: str, against: str = EXACT, *, model: Model | str | None = None
    ) -> Divergence:
        """KL both ways, TV, JS and top-1 flips of every target, as `comparison` has them.

        Args:
            method: the view to judge.
            against: an exact method, the reference.
            model: None takes the one scored with last, else the embedded one.
        """
        from mwviz.engine.divergence import diverge

        judge = self._judge(model)
        fitting = self.for_model(judge)
        reference = fitting.score(judge, against)
        return finish(diverge(reference, fitting.score(judge, method), judge))

    def _judge(self, model: Model | str | None) -> Model:
        """The model to score with: the one given, the last one, or the embedded one."""
        if model is None and self.model is not None:
            return self.model
        return scorer.loaded(model)

    def compared(self, view: Scores, reference: Scores) -> Comparison:
        """Scores of a view joined with those of the true contexts."""
        return compare(
            self.tree,
            self.rollout,
            pairs=self.pairs(view.method),
            junctions=self.junction_list,
            reference=reference,
            view=view,
        )

    def describe(self) -> str:
        """An HTML table row: id, calls, tokens, junctions. Trace text is escaped."""
        budget = self.tree.budget
        cells = (
            self.rollout.id,
            counted(len(self.rollout.calls), "call"),
            counted(budget["tree"], "tree token"),
            counted(sum(j.is_eviction for j in self.junction_list), "eviction"),
        )
        return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"

    def _repr_html_(self) -> str:
        return f"<table>{self.describe()}</table>"
