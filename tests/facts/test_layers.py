"""The meter of `benchmarks.layers` names functions that there are."""

from __future__ import annotations

from functools import reduce
from importlib import import_module

from benchmarks.layers import LAYERS


def test_every_layer_exists() -> None:
    for layer in LAYERS:
        module, _, path = layer.place.partition(":")
        assert callable(reduce(getattr, path.split("."), import_module(module))), layer.place
