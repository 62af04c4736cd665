"""Are two kernels equal by proof? Yes, or why that is not known.

The second kernel must be the first but for loads whose value comes from a shuffle or a copy. What
each of them claims (the value of that load in lane i + N) is read off the text, judged by the
rules of `ptxsw.shuffle.legal` on the first kernel's trace, and the lines around it are run over
terms to see that they carry the claim out under the conditions that its proof needs
(`ptxsw.verify.local`). Then all registers have the values that they have in the first kernel,
and so all stores have the same addresses, values and conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ptxsw import isa
from ptxsw.emulator.run import emulate
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.trace import Trace
from ptxsw.ir import Directive, Function, Instruction, Int, Module, Reg
from ptxsw.shuffle.find import Candidate
from ptxsw.shuffle.legal import LOCKSTEP, NO_RACE, Judge, Refused, segments
from ptxsw.shuffle.plan import Part, Plan, Rewrite
from ptxsw.verify.align import Aligned, Apart, align
from ptxsw.verify.local import check

ASSUME = frozenset({LOCKSTEP, NO_RACE})
"""What a proof may stand on; what it does stand on is said."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The kernels are equal; `rewrites` loads were shown to get their value elsewhere."""

    rewrites: int
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Open:
    """Nothing is proved."""

    reason: str


def prove(a: Module, b: Module, kernel: str, assume: frozenset[str] = ASSUME) -> Proof | Open:
    """Is a kernel of `b` equal to that of `a`? Raises ParseError."""
    first, second = _function(a, kernel), _function(b, kernel)
    around = _around(a, b)
    if around is not None:
        return Open(around)
    aligned = align(first, second)
    if isinstance(aligned, Apart):
        at = "" if aligned.instruction is None else f" (line {_line(b, aligned.instruction)})"
        return Open(f"{aligned.reason}{at}")
    if _directives(a, first) != _directives(b, second):
        return Open("the directives in the kernels differ")
    if all(one.kind == "same" for one in aligned):
        return Proof(0)
    claims = list(_claims(first, aligned))
    unread = next((c for c in claims if isinstance(c, Open)), None)
    if unread is not None:
        return unread
    solver = Solver()
    trace = emulate(a, first, solver=solver)
    if trace.statistics.timed_out:
        return Open("the symbolic run of the first kernel took too long")
    judge = Judge(trace, solver, assume)
    return _judged(trace, judge, [c for c in claims if isinstance(c, _Claim)], b)


def _function(module: Module, name: str) -> Function:
    return next(f for f in module.functions if f.name == name and f.body_span is not None)


def _directives(module: Module, function: Function) -> list[str]:
    """Pragmas, branch targets, prototypes, as written."""
    found = [s for s in function.body.statements if isinstance(s, Directive)]
    return [module.source.slice(directive.span) for directive in found]


def _line(module: Module, instruction: Instruction) -> int:
    return module.source.line(instruction.span.start)


def _around(a: Module, b: Module) -> str | None:
    """What differs outside the kernels: variables, and functions that they may call."""
    if [a.source.slice(v.span) for v in a.variables] != [
        b.source.slice(v.span) for v in b.variables
    ]:
        return "the variables of the modules differ"
    for kind in ("func", "entry"):
        names = [[f.name for f in m.functions if f.kind == kind] for m in (a, b)]
        if names[0] != names[1]:
            return "the functions of the modules differ"
    called = [[m.source.slice(f.span) for f in m.functions if f.kind == "func"] for m in (a, b)]
    if called[0] != called[1]:
        return "functions that the kernels may call differ"
    initialised = [
        [m.source.slice(v.span) for f in m.functions if f.body_span
         for v in f.body.variables if v.initialised]
        for m in (a, b)
    ]  # fmt: skip
    return "initial values differ" if initialised[0] != initialised[1] else None


@dataclass(frozen=True, slots=True)
class _Claim:
    """Load `dest` gets what load `source` gave lane i + `delta`."""

    dest: int
    source: int
    delta: int


def _claims(first: Function, aligned: tuple[Aligned, ...]) -> Iterator[_Claim | Open]:
    """What the text seems to claim of each load that is not as it was. A claim read wrongly is
    one that the text does not carry out."""
    origin: dict[Reg, tuple[int, int]] = {}  # load and lane distance of what a register holds
    for one in aligned:
        instruction = one.instruction
        made = _origin(instruction, origin) if one.kind in ("added", "replaces") else None
        if one.kind in ("guarded", "replaces"):
            dest = instruction.operands[0]
            held = made if one.kind == "replaces" else None
            if one.kind == "guarded" and isinstance(dest, Reg):
                held = origin.get(dest)
            if held is None:
                yield Open("where a load gets its value from is not read")
            else:
                yield _Claim(one.index, *held)
            made = (one.index, 0)
        elif one.kind == "same" and instruction.opcode == "ld":
            made = (one.index, 0)
        for reg in isa.defs(instruction):
            origin.pop(reg, None)
            if made is not None:
                origin[reg] = made


def _origin(instruction: Instruction, origin: dict[Reg, tuple[int, int]]) -> tuple[int, int] | None:
    """The one load, and the distance, that an added instruction's sources come from."""
    read = [reg for reg in isa.uses(instruction) if isinstance(reg, Reg)]
    found = {origin[reg] for reg in read if reg in origin}
    if len(found) != 1:
        return None
    (load, delta) = found.pop()
    if instruction.opcode != "shfl":
        return load, delta
    distance = instruction.operands[2] if len(instruction.operands) == 5 else None
    if not isinstance(distance, Int) or delta:
        return None
    return load, -distance.value if "up" in instruction.modifiers else distance.value


def _judged(trace: Trace, judge: Judge, claims: list[_Claim], b: Module) -> Proof | Open:
    access = {a.index: a for a in trace.accesses}
    rewrites: list[Rewrite] = []
    for claim in claims:
        dest, source = access.get(claim.dest), access.get(claim.source)
        if dest is None or source is None:
            return Open("a load that no path reaches is rewritten")
        proof = judge.legal(Candidate(dest, source, claim.delta))
        if isinstance(proof, Refused):
            line = _line(trace.module, dest.instruction)
            return Open(f"the load of line {line} is not proved: {proof.reason}")
        part = Part(claim.source, 0, claim.delta)
        rewrites.append(Rewrite(claim.dest, (part,), "paper", "keep", proof))
    plan = Plan(trace.function, trace.cfg.instructions, tuple(rewrites), segments(trace))
    problem = check(plan, b)
    if problem is not None:
        return Open(f"the second kernel does not do what its proof needs: {problem}")
    names = dict.fromkeys(name for r in rewrites for name in r.proof.assumptions)
    return Proof(len(rewrites), tuple(names))
