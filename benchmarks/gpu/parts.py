"""The parts of the experiment, in the order in which they are run."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.gpu import correct, faster, interpreted, races
from benchmarks.gpu.job import Part

PARTS: Mapping[str, Part] = {part.NAME: part for part in (correct, faster, interpreted, races)}
