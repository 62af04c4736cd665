"""Follow a kernel's symbolic run step by step, and ask Z3 how far apart neighbouring threads are.

    python examples/stepping.py [FILE.ptx [KERNEL]]

The default is a transpose that goes through shared memory. It prints

    line 103: ld.shared.f32 %f2, [%r19];  128 bytes apart, always
    line 109: st.global.f32 [%rd8], %f2;  4 bytes apart, unless an index overflows
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import z3

import ptxsw

DEFAULT = Path(__file__).parents[1] / "tests" / "report" / "ptx" / "transpose.ptx"
NOT_KNOWN = "not known to be a fixed distance apart"
PATIENCE_MS = 5000
executed: Counter[str] = Counter()


def count(step: ptxsw.SymbolicStep) -> None:
    """A hook: it is called with every instruction as it is run."""
    executed[step.instruction.opcode] += 1


class Neighbours:
    """A thread and the next one of its row and warp: what terms are for each."""

    def __init__(self, terms: Sequence[Any]) -> None:
        """Of what these terms are made of, each thread has its own `%tid.x`, one more than that of
        the thread before it, and its own of all else that may differ in a warp: what it loaded,
        say. Of that nothing is known."""
        self.limits: list[z3.BoolRef] = []
        self.next: list[tuple[z3.ExprRef, z3.ExprRef]] = []
        for term in unknowns(terms):
            if term.variance == term.variance.LANE:
                value = ptxsw.to_z3(term)
                other = z3.FreshConst(value.sort())
                if term.value == "%tid.x":
                    other = value + 1
                    self.limits.append(z3.ULT(value, 1023))
                self.next.append((value, other))

    def both(self, term: Any) -> tuple[z3.ExprRef, z3.ExprRef]:
        """A term for the one thread and for the other."""
        value = ptxsw.to_z3(term)
        return value, z3.substitute(value, *self.next)


def unknowns(terms: Sequence[Any]) -> Iterator[Any]:
    """The terms inside of terms that become constants for Z3, each once."""
    seen, waiting = set(), list(terms)
    while waiting:
        term = waiting.pop()
        if term not in seen:
            seen.add(term)
            if term.kind in ("atom", "apply", "float"):
                yield term
            else:
                waiting += term.args


def widened(value: z3.ExprRef) -> Iterator[z3.ExprRef]:
    """What is widened inside of an expression, each once."""
    seen, waiting = set(), [value]
    while waiting:
        part = waiting.pop()
        if part.get_id() not in seen:
            seen.add(part.get_id())
            waiting += part.children()
            if part.decl().kind() in (z3.Z3_OP_SIGN_EXT, z3.Z3_OP_ZERO_EXT):
                yield part


def stride(step: ptxsw.SymbolicStep) -> str:
    """What a thread's address is beyond that of the thread before it, where both come here."""
    access = step.access
    assert access is not None
    conditions = [*step.conditions, *([] if access.guard is None else [access.guard])]
    threads = Neighbours([access.address, *conditions])
    address, further = threads.both(access.address)
    solver = z3.Solver()
    solver.set("timeout", PATIENCE_MS)
    solver.add(*threads.limits)
    for condition in conditions:
        solver.add(*threads.both(condition))
    if solver.check() == z3.unsat:
        return "no two neighbours come here"
    solver.push()
    for part in widened(address):  # without overflow it grows by what the narrow one grows by
        inner = part.arg(0)
        narrow, wide = (z3.substitute(each, *threads.next) - each for each in (inner, part))
        solver.add(wide == z3.SignExt(part.size() - inner.size(), narrow))
    if solver.check() != z3.sat:
        return NOT_KNOWN
    apart = solver.model().eval(further - address, model_completion=True).as_signed_long()
    solver.add(further - address != apart)
    if solver.check() != z3.unsat:
        return NOT_KNOWN
    solver.pop()
    solver.add(further - address != apart)
    known = "always" if solver.check() == z3.unsat else "unless an index overflows"
    return f"{apart} bytes apart, {known}"


def main(path: Path, kernel: str | None) -> None:
    for step in ptxsw.steps(path.read_text(), kernel, hook=count):
        if step.access is not None and step.access.space != "param":
            print(f"line {step.line}: {step.text}  {stride(step)}")
    print(", ".join(f"{opcode} {times}" for opcode, times in executed.most_common(3)))


if __name__ == "__main__":
    file, *name = sys.argv[1:] or [str(DEFAULT), "conflicting"]
    try:
        main(Path(file), name[0] if name else None)
    except (OSError, ValueError, TimeoutError) as error:
        sys.exit(str(error))
