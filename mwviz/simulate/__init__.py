"""What another harness would have done to a rollout: its messages replayed under a preset.

No model is needed. Completions are those that were recorded, so most of them are off-policy: they
were sampled in another context than the simulated one. Logprobs are dropped, summaries are marked
extracts of what left. The same rollout, preset and options always give the same result.
"""

from __future__ import annotations

import json
from typing import Any

from mwviz.analysis import Analysis
from mwviz.rollout import Rollout, Source
from mwviz.simulate.cache import CacheWindow, replay_cache
from mwviz.simulate.presets import PRESETS, Option, Preset, preset_named
from mwviz.simulate.replay import replay
from mwviz.simulate.transcript import flatten
from mwviz.simulate.writer import Writer

__all__ = ["PRESETS", "Option", "Preset", "preset_named", "simulate"]


def simulate(
    rollout: Rollout, preset_name: str, *, tokenizer: str | None = None, **options: Any
) -> Rollout:
    """The rollout as a harness of that kind would have run it.

    The main agent's transcript (see `mwviz.simulate.transcript`) is replayed call by call. Other
    agents' calls are kept as they are, without token ids.

    Args:
        rollout: Its main agent's calls need messages; presets of the cache also take token ids
            whose contexts only ever grew.
        preset_name: One of `PRESETS`.
        tokenizer: Counts the tokens of limits; None takes the one used for structure.
        **options: Of the preset, by name; see its `options`.

    Returns:
        Calls with the new prompts, the harness's hints and marked messages. `meta` names the
        preset (`simulated`), its `options`, the `tokenizer` of the limits and the ids of the
        calls whose completion is `off_policy`, as JSON.

    Raises:
        MwvizError: an unknown preset, option or value.
        TraceError: a call of the main agent has no messages.
    """
    preset = preset_named(preset_name)
    policy = preset.tuned(options)
    analysis = Analysis(rollout, tokenizer=tokenizer)
    cached = isinstance(policy, CacheWindow)
    if isinstance(policy, CacheWindow):
        made = replay_cache(analysis, policy, name=preset.name, tokenizer=tokenizer)
    else:
        made = replay(flatten(analysis), policy, Writer(tokenizer), name=preset.name)
    used = {option.name: options.get(option.name, option.default) for option in preset.options}
    meta = {
        "simulated": preset.name,
        "options": json.dumps(used),
        "tokenizer": analysis.encoding.tokenizer if cached else Writer(tokenizer).name,
        "off_policy": json.dumps(made.off_policy),
    }
    return Rollout(
        f"{rollout.id}.{preset.name}",
        made.calls,
        semantics="kv_orig" if cached else "re_prefill",
        source=Source("simulated", rollout.source.path),
        tokenizer=made.tokenizer,
        reward=rollout.reward,
        damage=rollout.damage,
        warnings=(*rollout.warnings, *made.warnings),
        meta={**rollout.meta, **meta},
    )
