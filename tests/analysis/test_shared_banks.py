"""Passes through the banks are counted once for all requests that differ by exclusive or."""

from __future__ import annotations

from random import Random

from ptxsw.analysis.banks import Banks
from ptxsw.analysis.shared_banks import bank_traffic
from ptxsw.changes.permutation import Permutation
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.parser import parse
from tests.heads import head

PERMUTATIONS = [Permutation((7,), 0x7C), Permutation((4, 6), 0x78), Permutation((9,), 0x70)]


def run(step: int) -> Trace:
    """Lanes `step` bytes apart in two rows."""
    body = f"""
.visible .entry k() {{
.reg .b32 %r<5>; .reg .f32 %f<3>;
.shared .align 128 .b8 s[65536];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.s32 %r3, %r1, {step}, %r2;
ld.shared.f32 %f1, [%r3]; ld.shared.f32 %f2, [%r3+{step * 64}]; st.shared.f32 [%r3], %f2;
ret; }}"""
    module = parse(head() + body)
    return emulate(module, module.kernels[0])


def test_as_many_passes_as_address_by_address() -> None:
    for step in (4, 8, 12, 32, 128, 132):
        for each in bank_traffic(run(step), [(256, 1, 1)], {"&s@1": 0, "&s": 0}):
            assert each.requests
            for permutation in PERMUTATIONS:
                banks = Banks(permutation.banks_of)
                one_by_one = sum(banks.wavefronts(a, each.size) for a in each.requests)
                assert each.wavefronts(banks) == one_by_one / len(each.requests)


def test_random_words() -> None:
    """Any words, moved by exclusive or."""
    random = Random(3)
    for permutation in PERMUTATIONS:
        banks = Banks(permutation.banks_of)
        for _ in range(200):
            words = frozenset(random.randrange(1 << 13) for _ in range(32))
            other = random.randrange(1 << 13)
            assert banks.most(words) == banks.most(word ^ other for word in words)
