"""Benchmarks, and scripts that make what the project ships or documents."""
