"""Rollout logs and trees that benchmarks and scale tests run on."""
