"""Recorder tests; LiteLLM is kept from fetching its price list."""

import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
