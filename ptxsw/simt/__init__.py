"""Runs PTX without a GPU: all threads at once over numpy, under adversarial schedules."""

from ptxsw.simt.conflicts import RACE, SAME, STRONG, Conflict
from ptxsw.simt.counters import Counters
from ptxsw.simt.races import Races
from ptxsw.simt.run import LaunchResult, launch
from ptxsw.simt.schedule import Converging, Fuzzing
from ptxsw.simt.state import (
    Deadlock,
    Livelock,
    MemoryFault,
    Poisoned,
    Race,
    Runaway,
    RunError,
    Trap,
    Undefined,
)

__all__ = [
    "RACE",
    "SAME",
    "STRONG",
    "Conflict",
    "Converging",
    "Counters",
    "Deadlock",
    "Fuzzing",
    "LaunchResult",
    "Livelock",
    "MemoryFault",
    "Poisoned",
    "Race",
    "Races",
    "RunError",
    "Runaway",
    "Trap",
    "Undefined",
    "launch",
]
