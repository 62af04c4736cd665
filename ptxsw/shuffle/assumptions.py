"""What a user may vouch for, where the rules of shuffles cannot prove it, and their refusal."""

from __future__ import annotations

from msgspec import Struct

LOCKSTEP = "lockstep-iterations"
"""Lanes that are together in a loop are in the same iteration of it."""
NO_WRAP = "no-index-wrap"
"""No signed index that is extended to an address wraps."""
NO_RACE = "no-lane-race"
"""No thread writes, without a barrier, what another one loads."""
ASSUMPTIONS = frozenset({LOCKSTEP, NO_WRAP, NO_RACE})


class Refused(Struct, frozen=True):
    """Why a load is left alone, in words."""

    reason: str
