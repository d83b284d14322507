"""Rollouts in the formats of others: training data of exact views, call logs, message graphs."""
