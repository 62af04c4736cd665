"""What a proof has made is freed when it ends: no part of it holds what holds that part."""

from __future__ import annotations

import gc

from tests.validate.test_copies import judged


def test_a_proof_leaves_nothing_to_collect() -> None:
    judged()  # what is computed once for all proofs
    gc.collect()
    gc.disable()
    try:
        judged()
        assert gc.collect() == 0
    finally:
        gc.enable()
