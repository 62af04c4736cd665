"""Shared memory of the second text is that of the first, permuted.

Every shared access of the second text has to be at `π(x)`, where `x` is an address that the first
text accesses in the same segment. It is then looked at as an access to `x`. Since π is one to one
and moves whole granules of complete rows, memories that correspond stay so: an aligned access
inside a granule touches the images of the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.facts.bit_sums import BitSums
from ptxsw.facts.equality import Equality
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Function,
    Instruction,
    Module,
    Reg,
    Special,
    Symbol,
    Variable,
    leaves,
)
from ptxsw.ptx.isa import Effect
from ptxsw.terms.node import Term
from ptxsw.terms.substitution import substitute
from ptxsw.validate.evaluate import Evaluator
from ptxsw.validate.memory_ssa import Bytes, multiple
from ptxsw.validate.outcome import Differ, GiveUp
from ptxsw.validate.path import Path

_TOUCHES = Effect.READ | Effect.WRITE | Effect.CALL
_SIMPLE = isa.opcodes(isa.Trait.SCALAR_ACCESS)
_ADDRESS = 32  # bits of an address in shared memory


class SharedLayout:
    """The relation between the two shared memories. `evaluator` is that of the first text, whose
    arrays are taken to lie where those of the second do."""

    def __init__(
        self, permutation: Permutation, evaluator: Evaluator, equality: Equality,
        module: Module, function: Function,
    ) -> None:  # fmt: skip
        self.permutation = permutation
        self._terms, self._equality = evaluator.terms, equality
        self._evaluator = evaluator
        arrays = list(shared_arrays(module, function))
        if reads_total(function.body.instructions):
            raise GiveUp("the kernel asks how much shared memory it has")
        if set(permutation.dynamic) != {v.name for v in arrays if v.is_dynamic}:
            raise GiveUp("the permutation leaves an array of dynamic size out of account")
        for variable in arrays:
            if not variable.is_dynamic and not _has_whole_rows(variable):
                raise GiveUp(f"{variable.name} does not consist of whole rows of {ROW} bytes")
        self._facts = [
            multiple(self._terms, evaluator.symbol(v.name, v.scope), ROW)
            for v in arrays
            if not v.is_dynamic
        ]
        self._sums = BitSums(self._terms, self._aligned(arrays))
        self._mask = self._masked()
        self._answers: dict[tuple[Term, Term], bool] = {}
        self._images: dict[Term, Term] = {}

    def check(self, instructions: Iterable[Instruction]) -> None:
        """Raises GiveUp where an instruction may reach shared memory in a way that is not
        followed."""
        for instruction in instructions:
            effects = isa.effects(instruction.opcode, instruction.modifiers)
            simple = instruction.opcode in _SIMPLE and not _elsewhere(instruction)
            if effects & _TOUCHES and not simple and _near(instruction):
                raise GiveUp(f"{instruction.name} may reach shared memory, which is permuted")

    def touches(self, instruction: Instruction) -> bool:
        """May an instruction access shared memory?"""
        effects = isa.effects(instruction.opcode, instruction.modifiers)
        return bool(effects & _TOUCHES) and _near(instruction)

    # ------------------------------------------------------------ addresses

    def origin(
        self, target: Bytes, olds: Sequence[Term], given: Sequence[Term], index: int, size: int
    ) -> Bytes:
        """The bytes of the first text's memory that correspond to what an access of the second
        touches; `olds` are the shared addresses of the first text's segment. Raises Differ."""
        if target.space == "generic":
            raise Differ("a generic access may reach shared memory, which is permuted", None, index)
        if target.space != "shared":
            return target
        if not 0 < size <= self.permutation.granule:
            raise Differ(f"an access of {size} bytes is wider than a granule", None, index)
        # π is one to one. So it does not matter which of the first text's accesses this one was
        # made from: if its address is the image of one, it touches the image of the same bytes.
        place = self._low(target.place)
        images = [(old, self._image(old)) for old in dict.fromkeys(olds)]
        for old, image in images:
            if image is place:
                return Bytes("shared", old, target.size)
        facts = tuple(dict.fromkeys((*self._facts, *given)))
        for old, image in images:
            if self._same(image, place, facts):
                return Bytes("shared", old, target.size)
        raise Differ("a shared address is not the permuted one", None, index)

    def _same(self, image: Term, place: Term, facts: Sequence[Term]) -> bool:
        same = self._answers.get((image, place))
        if same is None:
            # Mostly the conditions of the path do not matter: without them the answer serves all
            # other paths.
            same = self._same_sums(image, place)
            same = same or self._equality.same(image, place, self._facts)
            self._answers[image, place] = same
        return same or self._equality.same(image, place, facts)

    def _same_sums(self, image: Term, place: Term) -> bool:
        """The same without the solver, dynamic memory both permuted and left in place."""
        if not self.permutation.dynamic:
            return self._sums.same(image, place)
        whole, terms = self._mask.args[0], self._terms
        return all(
            self._sums.same(*(substitute(terms, term, leaf) for term in (image, place)))
            for value in (terms.const(1, 1), terms.const(0, 1))
            for leaf in [lambda node, value=value: value if node is whole else None]
        )

    def _aligned(self, arrays: Iterable[Variable]) -> Mapping[Term, int]:
        """What `_facts` says, as powers of two."""
        fixed = (v for v in arrays if not v.is_dynamic)
        bits = ROW.bit_length() - 1
        return {self._evaluator.symbol(v.name, v.scope): bits for v in fixed}

    def _low(self, place: Term) -> Term:
        """An address in shared memory has 32 bits, whatever the register that holds it."""
        return self._terms.extract(place, 0, _ADDRESS) if place.width > _ADDRESS else place

    def _image(self, place: Term) -> Term:
        """The image of an address in shared memory."""
        image = self._images.get(place)
        if image is None:
            image = self._images[place] = self._permuted(self._low(place))
        return image

    def _permuted(self, place: Term) -> Term:
        terms = self._terms
        field: Term | None = None
        for shift in self.permutation.shifts:
            moved = terms.lshr(place, terms.const(shift, _ADDRESS))
            field = moved if field is None else terms.xor(field, moved)
        assert field is not None
        return terms.xor(place, terms.and_(field, self._mask))

    def _masked(self) -> Term:
        """The mask, or nothing where the launch gives no whole rows."""
        terms, evaluator = self._terms, self._evaluator
        mask = terms.const(self.permutation.mask, _ADDRESS)
        if not self.permutation.dynamic:
            return mask
        # The relation that the text has to establish, whichever way it computes its mask.
        size = evaluator.value(Special("%dynamic_smem_size"), _no_register, _ADDRESS)
        starts = [self._low(evaluator.symbol(name)) for name in self.permutation.dynamic]
        low = [terms.extract(t, 0, ROW.bit_length() - 1) for t in (size, *starts)]
        whole = [terms.eq(part, terms.const(0, part.width)) for part in low]
        both = whole[0]
        for condition in whole[1:]:
            both = terms.and_(both, condition)
        return terms.ite(both, mask, terms.const(0, _ADDRESS))


def _near(instruction: Instruction) -> bool:
    """May one of the places that an instruction touches lie in shared memory?"""
    named = any(m.startswith("shared") for m in instruction.modifiers)
    return named or isa.space(instruction) in ("shared", "generic", None)


def _elsewhere(instruction: Instruction) -> bool:
    """May it reach the shared memory of another block?"""
    return any(m.startswith("shared::cluster") for m in instruction.modifiers)


def _no_register(reg: Reg) -> Term:
    raise KeyError(reg)


def shared_places(paths: Iterable[Path]) -> list[Term]:
    """The shared addresses that paths of the first text access."""
    places: list[Term] = []
    for path in paths:
        places += [t.target.place for t in path.touches if t.target.space == "shared"]
        places += [
            e.operands[0]
            for e in path.events
            if e.instruction.opcode in _SIMPLE and "shared" in e.what[2]
        ]
    return places


# ---------------------------------------------------------------- declarations


def shared_arrays(module: Module, function: Function) -> Iterable[Variable]:
    """The variables in shared memory that a kernel names."""
    instructions = function.body.instructions
    named = {
        (leaf.name, leaf.scope)
        for instruction in instructions
        for leaf in leaves(instruction.operands)
        if isinstance(leaf, Symbol)
    }
    declared = (*module.variables, *function.body.variables)
    return (v for v in declared if v.space == "shared" and (v.name, v.scope) in named)


def reads_total(instructions: Iterable[Instruction]) -> bool:
    """Does a kernel ask how much shared memory it has? Whole rows may take more of it."""
    return any(Special("%total_smem_size") in isa.uses(i) for i in instructions)


def _has_whole_rows(variable: Variable) -> bool:
    size = variable.size
    whole = (variable.align or 1) % ROW == 0 and size > 0 and size % ROW == 0
    return whole and set(variable.linkage) <= {"visible"}


def declared_alike(old: Variable, new: Variable) -> bool:
    """Do two declarations differ at most in more alignment and bytes for a shared array?"""
    if old.space != "shared" or "extern" in old.linkage or old.initialised:
        return old._replace(span=new.span) == new
    same = (
        old._replace(
            span=new.span, align=new.align, dims=new.dims, type=new.type, vector=new.vector
        )
        == new
    )
    return same and new.size >= old.size and (new.align or 1) >= (old.align or 1)
