"""What a kernel's functions access, with the arguments that the kernel gives them: for changes in
copies of these functions.

Each call in the kernel, and each call in what it calls, is looked at by itself, since the kernel is
run symbolically with functions in place of calls. Calls of which the same is found are of one copy.
The function itself stays, for other kernels, other modules and calls through its address.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.changes.change import Change, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.lower_memory_spaces import (
    CallOfCopy,
    Converted,
    FunctionCopy,
    name_place,
    named_access,
)
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Access
from ptxsw.flow.cfg import build
from ptxsw.flow.inlining import (
    CallCopy,
    in_one_piece,
    is_replaceable,
    keeps_parameters,
    shared_by_calls,
)
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Mem, Reg
from ptxsw.rewrites.base import Kernel
from ptxsw.terms.solver import Solver

_SHARE = 0.25
"""The share of a kernel's time in which it is run symbolically with what it calls."""


class CalledAccess(Struct, frozen=True):
    """An access of a function, by where it begins in the text, for the call of a number."""

    number: int
    start: int
    space: str
    proof: Proof


class _Version(Struct, frozen=True):
    """What a function is for some of its calls: the spaces of accesses, and the versions of what it
    calls, by positions in its body."""

    function: str
    spaces: tuple[tuple[int, str], ...]
    calls: tuple[tuple[int, _Version], ...]


def calls_of(kernel: Kernel, *, own: bool) -> Calls | None:
    """None where the kernel calls no function of its module that has generic accesses, or its run
    takes too long. With `own`, it has accesses of its own of which more may be known with
    functions in place of calls and registers in place of variables."""
    function, copies = in_one_piece(kernel.module, kernel.function)
    called = any(_has_generic(callee) for callee in {copy.callee for copy in copies})
    if not called and (not own or function.body is kernel.function.body):
        return None
    solver = Solver()
    seconds = kernel.budget.seconds * _SHARE
    trace = emulate(kernel.module, function, budget_s=seconds, solver=solver)
    if trace.statistics.timed_out:
        return None
    return Calls(kernel, replace(kernel, function=function, trace=trace, solver=solver), copies)


def opaque_calls(kernel: Kernel) -> Iterator[tuple[int, str]]:
    """Calls in the kernel of functions that have generic accesses and are not looked at, and why
    not."""
    functions = {f.name: f for f in kernel.module.functions if f.body_span is not None}
    for at, call in enumerate(kernel.trace.cfg.instructions):
        callee = functions.get(isa.call_parts(call).callee or "") if call.opcode == "call" else None
        if callee is None or not _has_generic(callee):
            continue
        if is_replaceable(callee):
            yield at, f"{callee.name} is weak: a linker may put another function in its place"
        elif keeps_parameters(callee):
            yield at, f"{callee.name} uses the address of a parameter of its own"


class Calls(Struct, frozen=True, dict=True):
    """`outer` is the kernel as it is written, `kernel` the same with `copies` of functions in place
    of calls."""

    outer: Kernel
    kernel: Kernel
    copies: tuple[CallCopy, ...]

    def number(self, access: Access) -> int | None:
        """The copy in which an access stands; None for one of the kernel itself."""
        base = isa.address(access.instruction).base
        assert isinstance(base, Reg)
        at = bisect_right(self.copies, base.scope, key=lambda copy: copy.scopes.start) - 1
        return at if at >= 0 and base.scope in self.copies[at].scopes else None

    def at(self, number: int) -> int:
        """The position in the kernel of the call through which one comes to a copy."""
        return self._kernel_positions[self.copies[self._outermost(number)].call.start]

    def place(self, access: Access) -> str:
        """Where an access stands that is not in the kernel."""
        number = self.number(access)
        assert number is not None
        line = self.kernel.line(access.index)
        return f"line {line}, in {self.copies[number].callee.name}"

    def uncopied(self, number: int) -> str | None:
        """Why no copy of the function is made, nor of one of those through which it is called."""
        around: int | None = number
        while around is not None:
            reason = self._uncopied[self.copies[around].callee.name]
            if reason is not None:
                return reason
            around = self.copies[around].around
        return None

    def changes(self, rewrite: str, accesses: Iterable[CalledAccess]) -> Iterator[Change]:
        """A change for each call in the kernel that is of a copy then."""
        spaces: dict[int, dict[int, str]] = {}
        proofs: dict[int, list[str]] = {}
        for access in accesses:
            spaces.setdefault(access.number, {})[access.start] = access.space
            top = proofs.setdefault(self._outermost(access.number), [])
            top += access.proof.assumptions
        names: dict[_Version, FunctionCopy] = {}
        for number, version in self._versions(spaces).items():
            if self.copies[number].around is not None:
                continue
            copy, at = self._copy(version, names), self.at(number)
            added = sum(a.converted == a.at for c in copy.with_inner().values() for a in c.accesses)
            yield Change(
                rewrite, at, frozenset({at}),
                Proof(assumptions=tuple(dict.fromkeys(proofs[number]))), CallOfCopy(at, copy),
                worth=Worth(instructions=float(added)),
            )  # fmt: skip

    def _versions(self, spaces: Mapping[int, Mapping[int, str]]) -> dict[int, _Version]:
        """What is known of calls, where anything is, by their numbers."""
        versions: dict[int, _Version] = {}
        inner: dict[int, list[tuple[int, _Version]]] = {}
        for number in reversed(range(len(self.copies))):  # inner ones first
            _, callee, _, around = self.copies[number]
            positions = self._positions(callee)
            own = sorted((positions[s], space) for s, space in spaces.get(number, {}).items())
            calls = sorted(inner.get(number, ()), key=lambda call: call[0])
            if not own and not calls:
                continue
            versions[number] = _Version(callee.name, tuple(own), tuple(calls))
            if around is not None:
                at = self._positions(self.copies[around].callee)[self.copies[number].call.start]
                inner.setdefault(around, []).append((at, versions[number]))
        return dict(sorted(versions.items()))

    def _copy(self, version: _Version, names: dict[_Version, FunctionCopy]) -> FunctionCopy:
        copy = names.get(version)
        if copy is None:
            calls = tuple((at, self._copy(inner, names)) for at, inner in version.calls)
            cfg, converted = build(self._functions[version.function].body), Converted()
            accesses = (named_access(cfg, at, space, converted) for at, space in version.spaces)
            name = self._fresh(version.function, len(names) + 1)
            copy = FunctionCopy(name, version.function, tuple(accesses), calls)
            names[version] = copy
        return copy

    def _fresh(self, function: str, number: int) -> str:
        """A name that nothing in the text has, and no copy that is made for another kernel."""
        name = f"{function}$sw{number}_{self.outer.function.name}"
        while name in self.outer.text:
            name += "_"
        return name

    def _outermost(self, number: int) -> int:
        around = self.copies[number].around
        return number if around is None else self._outermost(around)

    def _positions(self, function: Function) -> Mapping[int, int]:
        return _positions(function.body.instructions)

    @cached_property
    def _kernel_positions(self) -> Mapping[int, int]:
        return _positions(self.outer.trace.cfg.instructions)

    @cached_property
    def _functions(self) -> Mapping[str, Function]:
        return {copy.callee.name: copy.callee for copy in self.copies}

    @cached_property
    def _uncopied(self) -> Mapping[str, str | None]:
        return {name: self._cannot_copy(name, f) for name, f in self._functions.items()}

    def _cannot_copy(self, name: str, function: Function) -> str | None:
        """Why a function cannot stand in the module twice."""
        shared = shared_by_calls(function)
        if shared is not None:
            return f"no copy is made, since all calls share its variable {shared.name}"
        if function.directives or name_place(self.outer.text, function) is None:
            return "a function with directives in its header is not copied"
        if name in self._reached(name):
            return "a function that calls itself is not copied"
        return None

    def _reached(self, name: str) -> set[str]:
        """The functions that one calls, and those that these call."""
        reached, left = set[str](), [name]
        while left:
            function = self._functions.get(left.pop())
            code = () if function is None else function.body.instructions
            new = {isa.call_parts(i).callee or "" for i in code if i.opcode == "call"} - reached
            reached |= new
            left += new
        return reached


def _positions(instructions: Iterable[Instruction]) -> Mapping[int, int]:
    """Of instructions by where they begin in the text."""
    return {instruction.start: at for at, instruction in enumerate(instructions)}


def _has_generic(function: Function) -> bool:
    return any(
        isa.has(i, isa.Trait.SCALAR_ACCESS)
        and isa.space(i) == "generic"
        and any(isinstance(o, Mem) and isinstance(o.base, Reg) for o in i.operands)
        for i in function.body.instructions
    )
