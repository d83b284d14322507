"""A trainer's rows as rollouts, without a file: trainer_rows.py."""

import mwviz

rows = [
    {"rollout": "a", "prompt_ids": [1, 2], "completion_ids": [3, 4], "logprobs": [-0.5, -0.1]},
    {"rollout": "a", "prompt_ids": [1, 2, 9], "completion_ids": [5], "logprobs": [-0.7]},
]
(rollout,) = mwviz.from_token_rows(rows)
analysis = mwviz.analyse(rollout)
print([junction.kind for junction in analysis.junction_list])
print({name: analysis.view(name).coverage for name in ("rightmost", "packed_mask")})
