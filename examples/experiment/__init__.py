"""What each layout does to a small agent in training: the parts of `examples/reproduce.py`."""
