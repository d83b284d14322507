"""Runs models over views: loading, masks, scores, losses and distances; the home of torch."""
