"""Follow a kernel's symbolic run step by step, and ask Z3 how far apart neighbouring threads are.

    python examples/stepping.py [KERNEL.ptx]

The default is a transpose that goes through shared memory. It prints

    line 103: ld.shared.f32 %f2, [%r19];  128 bytes apart, always
    line 109: st.global.f32 [%rd8], %f2;  4 bytes apart, unless an index overflows
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import z3

import ptxsw

DEFAULT = Path(__file__).parents[1] / "tests" / "report" / "ptx" / "transpose.ptx"
executed: Counter[str] = Counter()


def count(step: ptxsw.SymbolicStep) -> None:
    """A hook: it is called with every instruction as it is run."""
    executed[step.instruction.opcode] += 1


def stride(step: ptxsw.SymbolicStep) -> str:
    """What a thread's address is beyond that of the thread before it."""
    assert step.access is not None
    address = ptxsw.to_z3(step.access.address)
    numbers = [v for v in z3.z3util.get_vars(address) if str(v).startswith("%tid.x!")]
    if not numbers:
        return "the same for all threads of a row"
    further = z3.substitute(address, *((tid, tid + 1) for tid in numbers)) - address
    at_zero = [(v, z3.BitVecVal(0, v.size())) for v in z3.z3util.get_vars(further)]
    bytes_apart = z3.simplify(z3.substitute(further, *at_zero)).as_signed_long()
    solver = z3.Solver()
    solver.add(*(ptxsw.to_z3(condition) for condition in step.conditions))
    solver.add(*(z3.ULT(tid, 31) for tid in numbers), further != bytes_apart)
    known = "always" if solver.check() == z3.unsat else "unless an index overflows"
    return f"{bytes_apart} bytes apart, {known}"


def main(path: Path, kernel: str | None) -> None:
    for step in ptxsw.steps(path.read_text(), kernel, hook=count):
        if step.access is not None and step.access.space != "param":
            print(f"line {step.line}: {step.text}  {stride(step)}")
    print(", ".join(f"{opcode} {times}" for opcode, times in executed.most_common(3)))


if __name__ == "__main__":
    given = sys.argv[1:]
    main(Path(given[0]) if given else DEFAULT, None if given else "conflicting")
