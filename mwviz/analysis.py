"""The facade: a rollout to its tree, junctions, views, pairs, scores and comparisons."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from mwviz import store, tokens
from mwviz.batch import read_batch
from mwviz.compare import Comparison, compare
from mwviz.engine.scores import Floor, Scores
from mwviz.engine.steps import Step, finish
from mwviz.errors import ModelError, ViewError
from mwviz.evidence import Evidence, evidence
from mwviz.junctions import Junction, find_junctions
from mwviz.pairs import Pairs, count_pairs
from mwviz.rendering import RECORDED
from mwviz.retokenised import retokenised
from mwviz.rollout import Rollout
from mwviz.semantics import NOTES, RECOMPUTE
from mwviz.temperature import needs_tempering, temperatures
from mwviz.templated import templated
from mwviz.templates import RefusedError, has_template
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import METHODS, View, build_view, exact_methods, method_named
from mwviz.views.own import OwnView, own_view

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from mwviz.engine.divergence import Divergence
    from mwviz.engine.model import Model

STUDENTS = {method.name: method.student for method in METHODS if method.student}
"""Methods whose scores are those of another one, and which."""
_RECOMPUTING = exact_methods("re_prefill")
EXACT = "exact"
"""Name that takes the cheapest exact method a model can run on a tree."""


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
    ) -> None:
        self.rollout = rollout
        self._encoding = encoding
        self.scores: dict[str, Scores] = {}
        """Scores of this session, by method; all by the model scored with last."""
        self.batches: dict[str, OwnView] = {}
        """Trainers' batches that were aligned, by the name of their view."""
        self._tokenizer = tokenizer
        self._views: dict[str, View] = {}
        self._pairs: dict[str, Pairs] = {}
        self._model: Model | None = None

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
        """One row a junction: `call`, `kind`, `depth`, `evicted`, `inserted`, `retained`, ...

        Sizes are in tokens; `depth` is missing where only usage shows a loss.
        """
        import pandas as pd

        rows = [
            {
                "call": junction.call,
                "kind": junction.kind,
                "depth": junction.depth,
                "evicted": junction.evicted_tokens,
                "inserted": len(junction.inserted),
                "retained": len(junction.retained),
                "tokens_before": junction.tokens_before,
                "tokens_after": junction.tokens_after,
                "evidence": junction.evidence,
                "eviction": junction.is_eviction,
            }
            for junction in self.junction_list
        ]
        columns = ["call", "kind", "depth", "evicted", "inserted", "retained"]
        columns += ["tokens_before", "tokens_after", "evidence", "eviction"]
        return pd.DataFrame(rows, columns=columns).astype({"depth": "Int64"})

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

        Raises:
            TraceError: the file is not a batch that can be read.
        """
        own = own_view(self.tree, read_batch(path), Path(path).name)
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

    def for_model(self, model: Model) -> Analysis:
        """This analysis, or one whose messages are rendered with the model's own tokenizer.

        Raises:
            ModelError: the recorded ids belong to another tokenizer and there is no text, or a
            trainer's batch was added.
        """
        if self._fits(model):
            return self
        if any(call.prompt is None or call.completion is None for call in self.rollout.calls):
            raise ModelError(
                f"{model.name} cannot score rollout {self.rollout.id!r}: its ids were made with "
                f"{self.encoding.tokenizer!r} and it has no text to render again"
            )
        if self.batches:
            raise ModelError(
                f"{model.name} has another tokenizer than {', '.join(self.batches)}: a trainer's "
                "batch is scored only with the tokenizer that made its ids"
            )
        return Analysis(tokens.without_ids(self.rollout), tokenizer=model.base)

    def in_own_tokens(self, model: Model) -> Analysis:
        """This analysis, if the model reads its tokens: single ones mean nothing under others.

        Raises:
            ModelError: the model has another tokenizer.
        """
        if self.for_model(model) is not self:
            raise ModelError(
                f"{model.name} has another tokenizer than the ids of rollout {self.rollout.id!r}, "
                "so single tokens cannot be told; take the model that recorded it"
            )
        return self

    def in_template(self, model: Model) -> Analysis:
        """`for_model`, but messages without ids are rendered by the model's own chat template.

        Its tree and junctions are those of what the model would be sent: only scores are taken
        from it. Where the template refuses a call, all are rendered neutrally.

        Raises:
            ModelError: see `for_model`.
        """
        told = all(c.prompt is not None and c.completion is not None for c in self.rollout.calls)
        neutral = self.encoding.rendering != RECORDED or not self._fits(model)
        if self.batches or not (told and neutral and has_template(model.tokenizer)):
            return self.for_model(model)
        plain = tokens.without_ids(self.rollout)
        try:
            found = templated(plain, model.tokenizer, model.base)
        except RefusedError as error:
            neutrally = self.for_model(model)
            text = f"the chat template of {model.base} refuses a call ({error}): rendered neutrally"
            said = (*neutrally.encoding.warnings, text)
            return Analysis(neutrally.rollout, encoding=replace(neutrally.encoding, warnings=said))
        return Analysis(plain, encoding=found)

    def _fits(self, model: Model) -> bool:
        name = self.encoding.tokenizer
        if self.encoding.rendering == "recorded" and name == "unknown":
            return True
        return name.rsplit("/", 1)[-1].lower() == model.base.rsplit("/", 1)[-1].lower()

    def scoring(
        self, model: Model, method: str = EXACT, *, kernel: str = "auto"
    ) -> Iterator[Step[Scores]]:
        """Steps of scoring one method, kept on disk; the last step carries the scores.

        Args:
            model: must share this analysis's tokenizer: see `for_model`.
            method: a method's name, or `exact` for the cheapest exact one.
            kernel: attention kernel, `auto` to choose.

        Raises:
            ModelError: the model cannot score this; says which method works instead.
            ViewError: no method has this name.
        """
        if not self._fits(model):
            raise ModelError(
                f"the tokens of rollout {self.rollout.id!r} are not {model.name}'s; "
                "score analysis.for_model(model)"
            )
        from mwviz.engine.attention import choose_kernel
        from mwviz.engine.score import score

        if self._model is not None and self._model.label != model.label:
            self.scores.clear()
        self._model = model
        name = self.resolve(model, method)
        student = STUDENTS.get(name)
        if student is not None:
            for step in self.scoring(model, student, kernel=kernel):
                yield step if step.result is None else self._as_student(step, name)
            return
        chosen = choose_kernel(
            model, packed=any(row.mask != "causal" for row in self.view(name).rows), kernel=kernel
        )
        stored = self.batches[name].digest if name in self.batches else name
        key = store.Key(
            self.digest, model.label, stored, model.precision, chosen, model.device.type
        )
        found = store.load(key).scores
        if found is not None:
            self.scores[name] = self._noted(found)
            yield Step(1, 1, 0.0, self.scores[name])
            return
        floor = self._floor(model, kernel)
        warm = self.temperature if needs_tempering(self.temperature) else None
        steps = score(
            self.tree, self.view(name), model, kernel=kernel, floor=floor, temperature=warm
        )
        for step in steps:
            if step.result is None:
                yield step
                continue
            store.save(key, step.result)
            self.scores[name] = self._noted(step.result)
            yield step._replace(result=self.scores[name])

    def _noted(self, scores: Scores) -> Scores:
        """Scores that say so if they encode anew what the cache had kept."""
        recomputed = self.tree.keeps_entries and scores.method in _RECOMPUTING
        return replace(scores, notes=(*scores.notes, RECOMPUTE)) if recomputed else scores

    def _as_student(self, step: Step[Scores], name: str) -> Step[Scores]:
        """The last step of a student's scoring, for the method that trains its rows."""
        assert step.result is not None
        self.scores[name] = replace(step.result, method=name)
        return step._replace(result=self.scores[name])

    def resolve(self, model: Model, method: str) -> str:
        """The method that a name stands for on this tree and model.

        Raises:
            ViewError: no method has this name, or no row can express how the cache was treated.
        """
        cache = self.tree.semantics
        if cache == "kv_reindex":
            raise ViewError(f"rollout {self.rollout.id!r} cannot be scored: {NOTES[cache]}")
        if method in self._views:
            return method
        if method != EXACT:
            return method_named(method).name
        able = exact_methods(cache)
        if len(able) == 1:
            return able[0]
        from mwviz.engine.choice import choose_exact

        return choose_exact(self.tree, model).method

    def score(self, model: Model | str, method: str = EXACT, *, kernel: str = "auto") -> Scores:
        """Log-probabilities of all targets that a method covers; see `scoring`."""
        return finish(self.scoring(_loaded(model), method, kernel=kernel))

    def compare(
        self, method: str, against: str = EXACT, *, model: Model | str | None = None
    ) -> pd.DataFrame:
        """One row a target: the method against the true contexts. Columns: `compare.COLUMNS`."""
        return self.comparison(method, against, model=model).table

    def comparison(
        self, method: str, against: str = EXACT, *, model: Model | str | None = None
    ) -> Comparison:
        """One method against the true contexts, scoring what is not scored yet.

        Args:
            method: the view to judge.
            against: an exact method, the reference.
            model: None takes the one scored with last, else the embedded one.
        """
        judge = self._judge(model)
        reference = self.score(judge, against)
        return self.compared(self.score(judge, method), reference)

    def divergence(
        self, method: str, against: str = EXACT, *, model: Model | str | None = None
    ) -> Divergence:
        """KL both ways, TV, JS and top-1 flips of every target, scoring what is not scored yet.

        Args:
            method: the view to judge.
            against: an exact method, the reference.
            model: None takes the one scored with last, else the embedded one.
        """
        from mwviz.engine.divergence import diverge

        judge = self._judge(model)
        reference = self.score(judge, against)
        return finish(diverge(reference, self.score(judge, method), judge))

    def _judge(self, model: Model | str | None) -> Model:
        """The model to score with: the one given, the last one, or the embedded one."""
        if model is None and self._model is not None:
            return self._model
        return _loaded(model)

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

    def _floor(self, model: Model, kernel: str) -> Floor | None:
        """Drift between packed_mask and logit_tree on the rollouts scored so far with this kernel.

        None if it cannot be packed so: then the self-check's floor counts.
        """
        from mwviz.engine.attention import MAX_DENSE, choose_kernel
        from mwviz.engine.check import pool_floor

        if model.capability.refusals or self.tree.size > MAX_DENSE or not len(self.tree.token):
            return None
        try:
            chosen = choose_kernel(model, packed=True, kernel=kernel)
        except ModelError:
            return None
        packed, separate = self.view("packed_mask"), self.view("logit_tree")
        return pool_floor(self.tree, model, packed, separate, kernel=chosen, name=self.digest)

    def describe(self) -> str:
        """An HTML table row: id, calls, tokens, junctions. Trace text is escaped."""
        budget = self.tree.budget
        cells = (
            self.rollout.id,
            f"{len(self.rollout.calls):,} calls",
            f"{budget['tree']:,} tree tokens",
            f"{sum(j.is_eviction for j in self.junction_list):,} evictions",
        )
        return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"

    def _repr_html_(self) -> str:
        return f"<table>{self.describe()}</table>"


def _loaded(model: Model | str | None) -> Model:
    return _load_once(model) if model is None or isinstance(model, str) else model


@lru_cache(maxsize=1)
def _load_once(name: str | None) -> Model:
    from mwviz.engine.embedded import EMBEDDED
    from mwviz.engine.model import load_model

    return load_model(name or EMBEDDED)
