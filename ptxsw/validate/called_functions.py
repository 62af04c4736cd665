"""Functions that only the second text has: copies of others, made for one kernel.

    call f, (a);        =>        call f$sw1, (a);

What such a function does is not known by its name, so both kernels are compared with the functions
in place of their calls. Then nothing is left of it, and nobody else knows it.
"""

from __future__ import annotations

from msgspec.structs import replace

from ptxsw.flow.inlining import in_one_piece, shared_by_calls
from ptxsw.ptx.ir import Directive, Function, Module, Symbol, leaves
from ptxsw.validate.functions import functions_alike
from ptxsw.validate.outcome import GiveUp

Text = tuple[Module, Function]


def with_calls_inlined(old: Text, new: Text) -> tuple[Text, Text]:
    """Both kernels with functions of their modules in place of calls, and the second module without
    the functions that it has added; the texts themselves where it has added none, or has the same
    ones under other names. Raises GiveUp where an added function may be known elsewhere, or is
    still called."""
    added = _added(old[0], new[0])
    if not added or functions_alike(old[0], new[0]) is not None:
        return old, new
    for function in added:
        _check(function)
    names = {f.name for f in added}
    if sorted(f.name for f in added if f.body_span is not None) != sorted(names):
        raise GiveUp("a function of only the second kernel has no body, or two")
    kept = replace(new[0], functions=tuple(f for f in new[0].functions if f.name not in names))
    if not names & _named(new[1]):  # they are other kernels'
        return old, (kept, new[1])
    whole = in_one_piece(*old)[0], in_one_piece(*new)[0]
    if names & _named(whole[1]):
        raise GiveUp("a function of only the second kernel could not be inlined")
    return (old[0], whole[0]), (kept, whole[1])


def both_in_one_piece(old: Text, new: Text) -> tuple[Text, Text] | None:
    """Both kernels with functions in place of calls, and registers for variables; None where that
    changes nothing."""
    whole = in_one_piece(*old)[0], in_one_piece(*new)[0]
    if whole[0].body is old[1].body and whole[1].body is new[1].body:
        return None
    return (old[0], whole[0]), (new[0], whole[1])


def _added(first: Module, second: Module) -> tuple[Function, ...]:
    """The functions of the second module whose names the first one does not have."""
    known = {f.name for f in first.functions}
    return tuple(f for f in second.functions if f.kind == "func" and f.name not in known)


def _check(function: Function) -> None:
    """Is a function only what its body says? Raises GiveUp."""
    if function.linkage:
        raise GiveUp("other modules may know a function of only the second kernel")
    if function.directives:
        raise GiveUp("a function of only the second kernel has directives")
    if shared_by_calls(function) is not None:
        raise GiveUp("a function of only the second kernel has variables that its calls share")


def _named(function: Function) -> set[str]:
    """What the statements of a kernel name outside of it."""
    symbols = {
        leaf.name
        for instruction in function.body.instructions
        for leaf in leaves(instruction.operands)
        if type(leaf) is Symbol
    }
    tables = (s.names for s in function.body.others if isinstance(s, Directive))
    return symbols.union(*tables)
