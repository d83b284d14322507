from __future__ import annotations

import pytest

from mwviz.engine import embedded
from mwviz.engine.model import Model, load_model


@pytest.fixture(scope="session")
def smollm2() -> Model:
    if embedded.path() is None:
        pytest.skip("the embedded model is not installed (mwviz doctor --install-model)")
    return load_model()
