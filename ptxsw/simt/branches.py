"""Branches, calls, returns and ends: PTX ISA 9.7.12; and what needs no doing here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxsw.flow.dataflow import CARRY
from ptxsw.ptx.ir import Instruction, Operand, Reg, Sink, Symbol, Variable, flatten
from ptxsw.ptx.isa import call_parts
from ptxsw.simt.code import Code, header_variables, size_of
from ptxsw.simt.lanes import as_array
from ptxsw.simt.library import LIBRARY
from ptxsw.simt.machine import Machine
from ptxsw.simt.memory import LOCAL
from ptxsw.simt.program import branch_targets
from ptxsw.simt.state import Array, Fragment, Frame, Index, Join, Trap
from ptxsw.simt.translate import DONE, Op, destinations, handles, read_operand, taking_part


def _without(idx: Index, some: Index) -> Index:
    """The threads of `idx` that are not in `some`."""
    return np.setdiff1d(idx, some, assume_unique=True)


@handles("bra", guarded=True)
def bra(code: Code, instruction: Instruction, pc: int) -> Op:
    """Where the guard differs between threads they part until the post-dominator."""
    (target,) = (o for o in instruction.operands if isinstance(o, Symbol))
    there = code.labels[target.name, target.scope]
    meet = code.joins.get(pc)
    if instruction.guard is None:
        return lambda machine, fragment: there

    def run(machine: Machine, fragment: Fragment) -> int | None:
        taken = taking_part(machine, fragment, code, instruction)
        if len(taken) == fragment.count:
            return there
        if len(taken) == 0:
            return None
        rest = _without(fragment.idx, taken)
        if machine.counters is not None:
            both = np.intersect1d(np.unique(taken >> 5), np.unique(rest >> 5))
            machine.counters.divergent_branches += len(both)
        machine.part_at(fragment, meet)
        machine.go(fragment, rest, pc + 1)
        machine.go(fragment, taken, there)
        return DONE

    return run


def _label(code: Code, name: str, scope: int) -> int:
    """A label as seen from a scope: its own, else the function's."""
    at = code.labels.get((name, scope), code.labels.get((name, 0)))
    if at is None:
        raise ValueError(f"no label {name}")
    return at


@handles("brx", guarded=True)
def brx(code: Code, instruction: Instruction, pc: int) -> Op:
    """A branch to the entry of a table that a register names."""
    index, table = instruction.operands[0], instruction.operands[1]
    tables = branch_targets(code.function)
    if not isinstance(table, Symbol) or table.name not in tables:
        raise ValueError("no table of targets")
    names = tables[table.name]
    targets = [_label(code, name, table.scope) for name in names]
    read = read_operand(code, index)
    meet = code.joins.get(pc)

    def run(machine: Machine, fragment: Fragment) -> int:
        going = taking_part(machine, fragment, code, instruction)
        if len(going) == 0:
            return pc + 1
        part = fragment.part(going)
        value, poison = read(machine, part.frame, part.exact)
        if poison is not None:
            undefined = poison if isinstance(poison, np.ndarray) else None
            raise machine.poisoned(part, undefined, "decides where to branch")
        numbers = np.broadcast_to(as_array(value), part.count).astype(np.int64)
        if (numbers >= len(targets)).any():
            at = int(np.flatnonzero(numbers >= len(targets))[0])
            what = f"entry {int(numbers[at])} of a table of {len(targets)} branch targets"
            raise machine.error(Trap, part, int(part.idx[at]), what)
        places = np.array(targets)[numbers]
        machine.part_at(fragment, meet)
        if len(going) < fragment.count:
            machine.go(fragment, _without(fragment.idx, going), pc + 1)
        for place in np.unique(places):
            machine.go(fragment, going[places == place], int(place))
        return DONE

    return run


@handles("ret", guarded=True)
def ret(code: Code, instruction: Instruction, pc: int) -> Op:
    """Back to the caller with the results; from a kernel, the end."""
    return _leaving(code, instruction, pc, return_from)


def return_from(machine: Machine, fragment: Fragment, idx: Index) -> None:
    """Threads leave their function; results are copied to the caller's variables."""
    frame = fragment.frame
    if frame.caller is not None:
        give_results(machine, frame, fragment.part(idx))
    machine.leave(fragment, idx)


@handles("exit", guarded=True)
def exit_(code: Code, instruction: Instruction, pc: int) -> Op:
    """The thread ends, in whatever function."""
    return _leaving(code, instruction, pc, Machine.end)


def _leaving(
    code: Code, instruction: Instruction, pc: int, leave: Callable[[Machine, Fragment, Index], None]
) -> Op:
    def run(machine: Machine, fragment: Fragment) -> int | None:
        going = taking_part(machine, fragment, code, instruction)
        if len(going) == 0:
            return None
        if len(going) < fragment.count:
            # Those that stay may be all there is now: they get a fragment of their own.
            machine.go(fragment, _without(fragment.idx, going), pc + 1)
        leave(machine, fragment, going)
        return DONE

    return run


@handles("trap")
def trap(code: Code, instruction: Instruction, pc: int) -> Op:
    """The kernel stops itself."""

    def run(machine: Machine, fragment: Fragment) -> None:
        raise machine.error(Trap, fragment, int(fragment.idx[0]), "trap")

    return run


@handles(
    "prefetch", "prefetchu", "nanosleep", "pmevent", "brkpt", "applypriority",
    "griddepcontrol", "setmaxnreg",
)  # fmt: skip
def nothing(code: Code, instruction: Instruction, pc: int) -> Op:
    """Memory is in order here and caches do not exist."""
    return lambda machine, fragment: None


@handles("createpolicy")
def createpolicy(code: Code, instruction: Instruction, pc: int) -> Op:
    """Cache policies are numbers that mean nothing here."""
    (slot,) = destinations(code, instruction.operands[0])

    def run(machine: Machine, fragment: Fragment) -> None:
        if slot is not None:
            fragment.frame.write(slot, fragment, np.zeros(1, np.uint64), None)

    return run


# ---------------------------------------------------------------- calls


@handles("call", guarded=True)
def call(code: Code, instruction: Instruction, pc: int) -> Op:
    """Direct and indirect calls; arguments and results are copied between the frames."""
    parts = call_parts(instruction)
    target = parts.target
    assert target is not None
    results, given = tuple(flatten(parts.results)), tuple(flatten(parts.given))

    def run(machine: Machine, fragment: Fragment) -> int:
        going = taking_part(machine, fragment, code, instruction)
        if len(going) == 0:
            return pc + 1
        part = fragment.part(going)
        named = _targets(machine, code, part, target)
        if CARRY in code.slots:  # calls do not preserve it (manual 9.7.2)
            part.frame.write(code.slot(CARRY), part, np.zeros(1, np.bool_), True, exact=True)
        if len(going) == fragment.count and len(named) == 1 and named[0][0] in LIBRARY:
            LIBRARY[named[0][0]](machine, part, given, results)
            return pc + 1
        machine.part_at(fragment, pc + 1)
        if len(going) < fragment.count:
            machine.go(fragment, _without(fragment.idx, going), pc + 1)
        for name, idx in named:
            inner = fragment.part(idx)
            if name in LIBRARY:
                LIBRARY[name](machine, inner, given, results)
                machine.go(fragment, idx, pc + 1)
            else:
                _enter(machine, code, inner, name, given, results)
        return DONE

    return run


def _targets(
    machine: Machine, code: Code, part: Fragment, target: Operand
) -> list[tuple[str, Index]]:
    """Functions called, and by which threads."""
    if isinstance(target, Symbol):
        return [(machine.program.function_named(target.name), part.idx)]
    value, poison = read_operand(code, target)(machine, part.frame, part.exact)
    if poison is not None:
        undefined = poison if isinstance(poison, np.ndarray) else None
        raise machine.poisoned(part, undefined, "decides what to call")
    addresses = np.broadcast_to(value.array, part.count)
    out = []
    for address in np.unique(addresses):
        idx = part.idx[addresses == address]
        name = machine.program.names.get(int(address))
        if name is None:
            raise machine.error(
                Trap, part, int(idx[0]), f"call of {int(address):#x}, which is not a function"
            )
        out.append((name, idx))
    return out


def _enter(
    machine: Machine,
    code: Code,
    part: Fragment,
    name: str,
    given: tuple[Operand, ...],
    results: tuple[Operand, ...],
) -> None:
    callee = machine.program.codes.get(name)
    if callee is None and machine.program.never_returns(name):
        machine.end(part, part.idx)
        return
    if callee is None:
        raise code.refuse(part.pc, f"the interpreter has no body of {name} to call")
    caller = part.frame
    base = caller.base + caller.code.size
    frame = Frame(callee, machine.threads, part.count, base, caller)
    frame.results = results
    machine.need_local(base + callee.size)
    params = header_variables(callee.function.params)
    if len(params) != len(given):
        raise code.refuse(part.pc, f"{name} takes {len(params)} arguments, not {len(given)}")
    for variable, operand in zip(params, given, strict=True):
        _pass(machine, part, operand, frame, variable)
    join = part.join
    assert join is not None
    inner = Join(part.pc + 1, caller, part.count, join, tag=part.tag)
    machine.runnable.append(Fragment(frame, 0, part.idx, inner))


def variable_at(frame: Frame, operand: Operand) -> int | None:
    """The offset of a variable of a frame in each thread's local window."""
    if not isinstance(operand, Symbol):
        return None
    return frame.base + frame.code.address(operand)[0] - LOCAL


def _pass(
    machine: Machine, part: Fragment, operand: Operand, frame: Frame, variable: Variable
) -> None:
    """An argument to a parameter: bytes to bytes, or register to register."""
    if variable.space == "reg":
        read = read_operand(part.frame.code, operand)
        value, poison = read(machine, part.frame, part.exact)
        slot = frame.code.slot(Reg(variable.name))
        inner = Fragment(frame, 0, part.idx, None)
        frame.write(slot, inner, as_array(value), poison, exact=True)
        return
    source = variable_at(part.frame, operand)
    if source is None:
        raise ValueError("argument of an unknown kind")
    target = frame.base + frame.code.offsets[variable.name, 0]
    machine.copy_local(part.idx, source, target, size_of(variable))


def give_results(machine: Machine, frame: Frame, part: Fragment) -> None:
    """Copies results to the variables or registers the call named."""
    caller = frame.caller
    assert caller is not None
    returns = header_variables(frame.code.function.returns)
    for variable, operand in zip(returns, frame.results, strict=False):
        if isinstance(operand, Sink):
            continue
        if variable.space == "reg":
            value, poison = read_operand(frame.code, Reg(variable.name))(machine, frame, part.exact)
            if not isinstance(operand, Reg):
                raise ValueError("result of an unknown kind")
            outer = Fragment(caller, part.pc, part.idx, None)
            array: Array = value.array
            caller.write(caller.code.slot(operand), outer, array, poison, exact=True)
            continue
        target = variable_at(caller, operand)
        if target is None:
            raise ValueError("result of an unknown kind")
        source = frame.base + frame.code.offsets[variable.name, 0]
        machine.copy_local(part.idx, source, target, size_of(variable))
