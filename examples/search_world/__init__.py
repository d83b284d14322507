"""A search world of one's own: invented facts, multi-hop questions, an agent whose context shrinks.

`python -m examples.search_world --help` records rollouts; docs/search-world.md tells how it works.
"""
