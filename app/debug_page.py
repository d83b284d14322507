"""Debug: one rollout, seen as its contexts, with one selection shared by all views."""

from __future__ import annotations

from mwviz_app import widgets

widgets.empty("No rollout is open.", "Choose one on the Open page.")
