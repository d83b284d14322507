"""What is trained: a copy of a model, with an adapter or in full, and its optimiser.

The model that scores for everybody is never touched.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mwviz.analysis import Analysis
from mwviz.engine.embedded import quiet_transformers
from mwviz.engine.model import Model, memory_errors, wrap
from mwviz.errors import ModelError
from mwviz.training.recipe import Recipe

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

ALPHA = 2
"""Scale of an adapter: its product is added this many times, whatever its rank."""


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """A model in training. `model` scores, generates and is trained; nobody else has it."""

    model: Model
    recipe: Recipe
    optimizer: torch.optim.Optimizer
    source: Model
    """The model it was copied from, as it was at the start."""
    adapter: PeftModel | None
    """What holds the adapter within the module; None if all weights are trained."""

    @property
    def parameters(self) -> tuple[torch.nn.Parameter, ...]:
        """What the optimiser changes, in the order of the module."""
        return tuple(part for part in self.model.module.parameters() if part.requires_grad)

    @property
    def moved(self) -> float:
        """Distance of the weights from the start, over the norm of the start; 0 at the start."""
        return _adapter_moved(self.model) if self.recipe.lora_rank else self._weights_moved()

    def rate(self, step: int) -> float:
        """Learning rate of a 0-based step."""
        rising = self.recipe.warmup_steps
        return self.recipe.learning_rate * min(1.0, (step + 1) / rising if rising else 1.0)

    @torch.no_grad()
    def _weights_moved(self) -> float:
        change = whole = 0.0
        before = self.source.module.state_dict()
        for name, part in self.model.module.named_parameters():
            then = before[name].to(part.dtype)
            change += float((part - then).double().square().sum())
            whole += float(then.double().square().sum())
        return math.sqrt(change / whole)


def learner(model: Model, recipe: Recipe) -> Learner:
    """A copy of `model` ready to train; the same start for the same recipe.

    An adapter is in float32 on all linear layers but the head. All weights are trained in float32
    or wider, since a step is smaller than what 16 bits resolve.

    Raises:
        ModelError: the copy does not fit in memory.
    """
    with memory_errors(model, 0):
        module = copy.deepcopy(model.module)
    module.train(mode=False)
    module.requires_grad_(requires_grad=True)
    adapter = None
    if recipe.lora_rank is None:
        torch.nn.Module.to(module, torch.promote_types(model.dtype, torch.float32))
    else:
        adapter = _adapted(module, recipe.lora_rank, recipe.seed)
    own = wrap(
        module,
        name=model.name,
        revision=f"{model.revision}-in-training",
        tokenizer=model.tokenizer,
        requested=model.capability.requested,
    )
    trained = [part for part in module.parameters() if part.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    return Learner(own, recipe, optimizer, model, adapter)


def fitted(analyses: Sequence[Analysis], model: Model) -> tuple[Analysis, ...]:
    """The analyses in the model's own tokens: see `Analysis.for_model`.

    Raises:
        ModelError: a rollout's ids belong to another tokenizer, or to a larger vocabulary.
    """
    found = tuple(analysis.for_model(model) for analysis in analyses)
    for analysis in found:
        largest = int(analysis.tree.ids.max(initial=0))
        if largest >= model.vocabulary:
            raise ModelError(
                f"{model.name}: token id {largest} of rollout {analysis.rollout.id!r} is outside "
                f"its vocabulary of {model.vocabulary}; it was recorded with another tokenizer"
            )
    return found


def _adapted(module: PreTrainedModel, rank: int, seed: int) -> PeftModel:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=rank, lora_alpha=ALPHA * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(), quiet_transformers():
        torch.manual_seed(seed)
        adapted = get_peft_model(module, config, autocast_adapter_dtype=True)
    adapted.train(mode=False)
    return adapted


@torch.no_grad()
def _adapter_moved(model: Model) -> float:
    from peft.tuners.lora import LoraLayer

    change = whole = 0.0
    for layer in model.module.modules():
        if isinstance(layer, LoraLayer):
            for name in layer.active_adapters:
                first, second = (
                    side[name].get_parameter("weight").double()
                    for side in (layer.lora_A, layer.lora_B)
                )
                inner = (second.T @ second) * (first @ first.T)
                change += float(inner.sum()) * layer.scaling[name] ** 2
            whole += float(layer.get_base_layer().get_parameter("weight").double().square().sum())
    return math.sqrt(max(change, 0.0) / whole) if whole else 0.0
