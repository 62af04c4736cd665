"""Why the rules of shuffles leave a load alone."""

from __future__ import annotations

from msgspec import Struct


class Refused(Struct, frozen=True):
    """Why a load is left alone, in words."""

    reason: str
