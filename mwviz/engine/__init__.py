"""Runs models over views: loading, masks, scores, losses and distances; the home of torch."""

import os

# Before torch is loaded: on busy cores threads that spin while they wait cost many times the work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
