"""Are two kernels equal by proof? Yes, or why that is not known.

The second kernel must be the first but for stretches that are there twice, and loads whose value
comes from elsewhere. What each of these claims (the value that some load gave lane i + N) is read
off the text (`ptxsw.verify.inferred`) and judged by the rules of `ptxsw.shuffle.legality` on the
first kernel's trace, and the lines around it are run over terms to see that they carry the claim
out under the conditions that its proof needs (`ptxsw.verify.local`). Then all registers have the
values that they have in the first kernel, and so all stores have the same addresses, values and
conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ptxsw import plan as planned
from ptxsw.analysis.lane_reuse import Candidate
from ptxsw.emulator.run import emulate
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.segments import segments
from ptxsw.ir import Directive, Function, Instruction, Module
from ptxsw.plan import Halo, HoistedLoad, Plan, ServedLoad
from ptxsw.shuffle.assumptions import LOCKSTEP, NO_RACE, Refused
from ptxsw.shuffle.legality import Legality
from ptxsw.verify.align import Divergence
from ptxsw.verify.inferred import Claims, InferredRewrite, read
from ptxsw.verify.lanes import WARP
from ptxsw.verify.local import beside, check
from ptxsw.verify.segment_runner import Mismatch

ASSUME = frozenset({LOCKSTEP, NO_RACE})
"""What a proof may stand on; what it does stand on is said."""


class Proof(Struct, frozen=True):
    """The kernels are equal; `rewrites` loads were shown to get their value elsewhere."""

    rewrites: int
    assumptions: tuple[str, ...] = ()


class Unproved(Struct, frozen=True):
    """Nothing is proved."""

    reason: str


def prove(a: Module, b: Module, kernel: str, assume: frozenset[str] = ASSUME) -> Proof | Unproved:
    """Is a kernel of `b` equal to that of `a`? Raises ParseError."""
    first, second = _function(a, kernel), _function(b, kernel)
    around = _around(a, b)
    if around is not None:
        return Unproved(around)
    if _directives(a, first) != _directives(b, second):
        return Unproved("the directives in the kernels differ")
    return _claimed(a, b, first, second, assume)


def _claimed(
    a: Module, b: Module, first: Function, second: Function, assume: frozenset[str]
) -> Proof | Unproved:
    """Proves what the text of the second kernel claims."""
    aligned = beside(first, second)
    if isinstance(aligned, Divergence):
        at = "" if aligned.instruction is None else f" (line {_line(b, aligned.instruction)})"
        return Unproved(f"{aligned.reason}{at}")
    if all(one.kind == "same" for one in aligned[1]):
        return Proof(0)
    try:
        claims = read(first, b, *aligned)
    except Mismatch as wrong:
        return Unproved(f"{wrong.reason} (line {_line(b, wrong.instruction)})")
    solver = Solver()
    trace = emulate(a, first, solver=solver)
    if trace.statistics.timed_out:
        return Unproved("the symbolic run of the first kernel took too long")
    plan = _planned(trace, Legality(trace, solver, assume), claims)
    return plan if isinstance(plan, Unproved) else _carried_out(plan, b)


def _function(module: Module, name: str) -> Function:
    return next(f for f in module.functions if f.name == name and f.body_span is not None)


def _directives(module: Module, function: Function) -> list[str]:
    """Pragmas, branch targets, prototypes, as written."""
    directives = [s for s in function.body.statements if isinstance(s, Directive)]
    return [module.source.slice(directive.span) for directive in directives]


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


def _planned(trace: Trace, judge: Legality, claims: Claims) -> Plan | Unproved:
    """The claims as a plan, with a proof of each."""
    hoists = {hoist.load: hoist for hoist in claims.hoists}
    rewrites: list[ServedLoad] = []
    for claim in claims.rewrites:
        proof = _proved(trace, judge, claim, hoists)
        if isinstance(proof, Unproved):
            return proof
        rewrites.append(ServedLoad(claim.dest, claim.parts, _scheme(claim), "keep", proof))
    access = {a.index: a for a in trace.accesses}
    for hoist in claims.hoists:
        load = access.get(hoist.load)
        refused = _UNREACHED if load is None else judge.can_hoist(load, hoist.at)
        if refused is not None:
            return Unproved(f"a load that is made early is not proved: {refused.reason}")
    return Plan(
        trace.function, trace.cfg.instructions, tuple(rewrites), segments(trace.cfg), claims.hoists,
        tuple(_rows(claims, rewrites)),
    )  # fmt: skip


_UNREACHED = Refused("no path reaches it")


def _scheme(claim: InferredRewrite) -> str:
    return "halo" if claim.displaced else "paper"


def _proved(
    trace: Trace, judge: Legality, claim: InferredRewrite, hoists: Mapping[int, HoistedLoad]
) -> planned.Proof | Unproved:
    """Why a load may have what it claims to have."""
    proofs: list[planned.Proof] = []
    access = {a.index: a for a in trace.accesses}
    for candidate in _candidates(access, claim):
        if candidate is None:
            return Unproved("a load that no path reaches is rewritten")
        source = candidate.source.index
        hoist = hoists.get(source)
        at = hoist.at if hoist is not None else source
        proof = judge.legal(
            candidate,
            before=at if claim.displaced else None,
            source_at=None if hoist is None else at,
        )
        if isinstance(proof, Refused):
            line = _line(trace.module, candidate.dest.instruction)
            return Unproved(f"the load of line {line} is not proved: {proof.reason}")
        proofs.append(proof)
    return planned.Proof.joined(proofs)


def _candidates(access: Mapping[int, Access], claim: InferredRewrite) -> Iterator[Candidate | None]:
    """What is to be proved for a claim; None for a load that is not known."""
    dest = access.get(claim.dest)
    for number, part in enumerate(claim.parts):
        source = access.get(part.source)
        if dest is None or source is None:
            yield None
            return
        own = Candidate(dest, source, part.delta, part.element, number, part.mirror)
        yield own
        for displaced, distance in claim.displaced:
            if displaced == number:
                far = -WARP if part.delta > 0 else WARP
                yield replace(own, delta=part.delta + far, displacement=distance)


def _rows(claims: Claims, rewrites: Sequence[ServedLoad]) -> Iterator[Halo]:
    """The rows of which the claims speak."""
    proofs = {rewrite.dest: rewrite.proof for rewrite in rewrites}
    members: dict[int, list[InferredRewrite]] = {}
    for claim in claims.rewrites:
        if claim.displaced:
            members.setdefault(claim.parts[0].source, []).append(claim)
    for lead, several in members.items():
        deltas = [part.delta for claim in several for part in claim.parts]
        (_, distance), delta = several[0].displaced[0], several[0].parts[0].delta
        stride = distance // (WARP if delta > 0 else -WARP)
        proof = planned.Proof.joined([proofs[claim.dest] for claim in several])
        yield Halo(lead, min(0, *deltas), max(0, *deltas), stride, proof)


def _carried_out(plan: Plan, b: Module) -> Proof | Unproved:
    problem = check(plan, b)
    if problem is not None:
        return Unproved(f"the second kernel does not do what its proof needs: {problem}")
    names = dict.fromkeys(name for r in plan.rewrites for name in r.proof.assumptions)
    return Proof(len(plan.rewrites), tuple(names))
