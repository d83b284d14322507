"""A model in training as one to sample from: its adapter is added to the weights.

An adapter doubles the kernels of a decoding step, and a small model's time is that of launching
them. Sums are the same but for rounding.
"""

from __future__ import annotations

import copy

import torch
from peft.tuners.lora import Linear
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from mwviz.engine.model import wrap
from mwviz.training.learner import Learner


class Merged:
    """Weights of its own, in place, so that captured graphs find them again.

    Args:
        learner: whose model it follows, with an adapter.
    """

    def __init__(self, learner: Learner) -> None:
        assert learner.adapter is not None
        self._learner = learner
        module = copy.deepcopy(learner.source.module)
        _fuse_norms(module)
        self.model = wrap(
            module,
            name=learner.model.name,
            revision=learner.model.revision,
            tokenizer=learner.model.tokenizer,
        )
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Takes over what the learner has learnt since."""
        for name, layer in self._learner.model.module.named_modules():
            if isinstance(layer, Linear):
                into = self.model.module.get_submodule(name).get_parameter("weight")
                into.copy_(layer.get_base_layer().get_parameter("weight"))
                for adapter in layer.active_adapters:
                    into.add_(layer.get_delta_weight(adapter))


def _fuse_norms(module: torch.nn.Module) -> None:
    """PyTorch's own norm in place of Llama's, which takes six kernels."""
    for parent in list(module.modules()):
        for name, norm in parent.named_children():
            if isinstance(norm, LlamaRMSNorm):
                one = torch.nn.RMSNorm(norm.weight.shape[0], norm.variance_epsilon)
                one.weight = norm.weight
                parent.set_submodule(name, one)
