"""The sizes of a model that its cost depends on, from its configuration and its layers."""

from __future__ import annotations

from typing import NamedTuple

from mwviz.engine import fused
from mwviz.engine.model import Model


class Widths(NamedTuple):
    """Sizes of a model that its cost depends on."""

    layers: int
    hidden: int
    query: int
    key: int
    inner: int
    vocabulary: int
    weights: int
    """Parameters of all layers' matrices."""
    number: int
    """Bytes of one number."""

    @property
    def kept(self) -> int:
        """Bytes that all layers keep of a token for the backward pass, compiled."""
        numbers = 2 * self.hidden + 3 * self.query + 3 * self.key + 2 * self.inner
        return numbers * self.number * self.layers


def widths(model: Model) -> Widths:
    """The sizes, from the configuration and the loaded layers."""
    config = model.module.config.get_text_config()
    heads = int(config.num_attention_heads)
    head = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    keys = int(getattr(config, "num_key_value_heads", None) or heads)
    hidden = int(config.hidden_size)
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    return Widths(
        layers=int(config.num_hidden_layers),
        hidden=hidden,
        query=heads * head,
        key=keys * head,
        inner=int(inner),
        vocabulary=model.vocabulary,
        weights=fused.matrix_numbers(model.module),
        number=model.dtype.itemsize,
    )
