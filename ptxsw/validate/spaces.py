"""Where variables, parameters and generic addresses lie, as the first text declares and shows.

An address is known to be in a space if the first kernel has converted it to that space or has
accessed it there, if it is built on a variable or a parameter that is declared to point there, or
if it was made by adding a window, in this segment or, as data flow tells, in all that lead to it.
The second text is no witness: it may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from msgspec.structs import replace

from ptxsw.emulator.spaces import may_hold_pointer, may_point
from ptxsw.facts.loads import CONSTANT
from ptxsw.flow.pointer_spaces import Points
from ptxsw.ptx.ir import Variable, type_width
from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.terms import Terms
from ptxsw.validate.evaluate import BY_ZERO
from ptxsw.validate.memory import Memory
from ptxsw.validate.memory_ssa import Bytes, multiple
from ptxsw.validate.text import Text

_WINDOWS = {Points.SHARED: "shared", Points.LOCAL: "local", Points.CONST: "const"}
_Items = tuple[tuple[Term, int], ...]


class _Numbers(set[Term]):
    """Terms that are no pointers: those noted, and, as all quotients and remainders, what a
    division by zero gives."""

    def __contains__(self, term: object) -> bool:
        by_zero = isinstance(term, Term) and term.kind is op.APPLY and term.value[0][0] == BY_ZERO
        return by_zero or super().__contains__(term)


class Windows:
    """What is known in one segment. With `parameters`, pointers among the kernel's parameters
    are taken to be global; `assumed` tells whether that was needed, and `met_generic` whether any
    address was left to be anywhere: if none was, nothing depends on where parameters point."""

    def __init__(
        self,
        terms: Terms,
        declared: Mapping[Term, str],
        windows: Mapping[Term, str],
        parameters: frozenset[Term] = frozenset(),
    ) -> None:
        self._terms = terms
        self._declared = declared
        self._windows = windows
        self._parameters = set(parameters)
        self._lenient = bool(parameters)
        self._numbers = _Numbers()
        self._shown: dict[_Items, str] = {}
        self._inside: dict[Term, str] = {}  # generic pointers into a window
        self.assumed = self.met_generic = False

    def shows(self, address: Term, space: str) -> None:
        """The first kernel uses a number as an address in a space."""
        # Only global addresses: those of the windows are other numbers in their own space.
        items = split(address)[1]
        if space == "global" and items:
            self._shown.setdefault(items, space)

    def told(self, to: Points | None, target: Bytes) -> Bytes:
        """The bytes of an access of which its terms tell no space, where data flow does."""
        if to is Points.GLOBAL or (to is Points.PARAMETER and self._lenient):
            self.assumed = self.assumed or to is Points.PARAMETER
            return replace(target, space="global")
        if to in _WINDOWS:
            return self._in_window(_WINDOWS[to], target.place, target.size)
        return target

    def points(self, unknown: Term, to: Points | None) -> None:
        """Note where a register of unknown value points, by the data flow of the first kernel."""
        if to is Points.GLOBAL:
            self._shown.setdefault(((unknown, 1),), "global")
        elif to in _WINDOWS:
            self._inside[unknown] = _WINDOWS[to]
        elif to is Points.PARAMETER and self._lenient:
            self._parameters.add(unknown)
        elif to is Points.NUMBER:
            self._numbers.add(unknown)

    def resolve(self, space: str, address: Term, size: int) -> Bytes:
        """The bytes of an access whose modifiers name `space` ("generic" for none)."""
        if space != "generic":
            return Bytes(space, address, size)
        found, by_assumption = self._space_of(address)
        self.assumed = self.assumed or by_assumption
        if found in _WINDOWS.values():
            return self._in_window(found, address, size)
        self.met_generic = self.met_generic or found == "generic"
        return Bytes(found, address, size)

    def _space_of(self, address: Term) -> tuple[str, bool]:
        """The space of a generic address, and whether parameters are assumed to be global for
        that; ("generic", False) where it is not known."""
        items = split(address)[1]
        if items in self._shown:
            return self._shown[items], False
        bases = [t for t, coefficient in items if coefficient == 1]
        windows = [t for t in bases if t in self._windows]
        pointers = [t for t in bases if t not in self._windows and self._may_point(t)]
        if not windows and len(pointers) == 1 and pointers[0] in self._inside:
            return self._inside[pointers[0]], False
        told = {self._space(t) for t in pointers}
        if len(windows) == 1 and told <= {self._windows[windows[0]]}:
            return self._windows[windows[0]], False
        if not windows and told == {"global"}:
            return "global", False
        if not windows and self._from_parameters(items, pointers):
            return "global", True
        return "generic", False

    def _in_window(self, space: str, address: Term, size: int) -> Bytes:
        """The bytes of a generic address that lies in a window."""
        (window,) = (
            term for term, of in self._windows.items() if (of, term.width) == (space, address.width)
        )
        return Bytes(space, self._terms.sub(address, window), size)

    def _from_parameters(self, items: _Items, pointers: list[Term]) -> bool:
        """Are parameters all in a sum that may be a pointer? Which of several it is, and which
        are numbers, does not matter: pointers among them are global."""
        others = (term for term, _ in items if term not in pointers)
        return (
            bool(pointers)
            and self._parameters.issuperset(pointers)
            and not any(may_hold_pointer(term, self._numbers) for term in others)
        )

    def _may_point(self, term: Term) -> bool:
        return term not in self._numbers and (term in self._declared or may_point(term))

    def _space(self, term: Term) -> str | None:
        return self._declared.get(term) or self._shown.get(((term, 1),))


class Declared:
    """Facts from the declarations of the first text: the `spaces` that addresses point to, the
    values of pointer-sized `parameters`, the atoms that are `windows`, facts about alignment
    (`aligned`) and about the shape of the block (`facts`).

    What the `second` text declares of its variables counts, too, where there is one: wherever they
    lie then, those of the first might lie."""

    def __init__(self, terms: Terms, memory: Memory, old: Text, second: Text | None = None) -> None:
        self.terms, self.memory, self.old = terms, memory, old
        self._second: dict[str, int] = {}
        if second is not None:
            declared = (*second.module.variables, *second.function.body.variables)
            self._second = {v.name: v.align or 1 for v in declared if not v.scope}
        self.spaces: dict[Term, str] = {}
        self.aligned: list[Term] = []
        self.facts: list[Term] = []
        self._blocks_have_threads()
        self.parameters: set[Term] = set()
        for variable in self.old.module.variables:
            self._variable(variable, 0)
        for variable in self.old.function.body.variables:
            if variable.space != "reg":
                self._variable(variable, variable.scope)
        for parameter in self.old.function.params:
            self._parameter(parameter)
        self.windows = {
            self.old.evaluator.window(space, width): space
            for space in ("shared", "local", "const")
            for width in (32, 64)  # addresses of both sizes are converted
        }

    def _blocks_have_threads(self) -> None:
        """No side of a block is empty, and `.reqntid` gives its length."""
        shape = self.old.function.block_shape or (0, 0, 0)
        for axis, size in zip("xyz", shape, strict=True):
            name = f"%ntid.{axis}"
            side = self.terms.special(name)
            equation = self.terms.eq(side, self.terms.const(size, 32))
            self.facts.append(equation if size else self.terms.not_(equation))
            if size:
                number = self.terms.special(f"%tid.{axis}")
                self.facts.append(self.terms.ult(number, self.terms.const(size, 32)))

    def _variable(self, variable: Variable, scope: int) -> None:
        address = self.old.evaluator.symbol(variable.name, scope)
        self.spaces[address] = variable.space
        natural = type_width(variable.type) * variable.vector // 8
        second = 1 if scope else self._second.get(variable.name, 1)
        self._aligned(address, max(variable.align or natural, second))

    def _parameter(self, parameter: Variable) -> None:
        address = self.old.evaluator.symbol(parameter.name)
        self.spaces[address] = "param"
        self.memory.names_parameter(address, parameter)
        size = self.old.module.address_size // 8
        if parameter.dims:
            self.parameters.update(self._fields(address, parameter, size))
        if parameter.dims or type_width(parameter.type) != 8 * size:
            return
        # The term that every `ld.param` of it gives.
        value = self.memory.load((), CONSTANT, Bytes("param", address, size), ())
        self.parameters.add(value)
        if "ptr" in parameter.attributes:
            for attribute in parameter.attributes:
                if attribute == "global":
                    self.spaces[value] = "global"
                elif attribute.startswith("align "):
                    self._aligned(value, int(attribute.split()[1]))

    def _fields(self, address: Term, parameter: Variable, size: int) -> Iterator[Term]:
        """What may be pointers among the fields of a structure."""
        total = prod(dim or 0 for dim in parameter.dims) * type_width(parameter.type) // 8
        for offset in range(0, total - size + 1, size):
            place = self.terms.add(address, self.terms.const(offset, address.width))
            yield self.memory.load((), CONSTANT, Bytes("param", place, size), ())

    def _aligned(self, address: Term, size: int) -> None:
        if size > 1 and size & (size - 1) == 0:
            self.aligned.append(multiple(self.terms, address, size))
