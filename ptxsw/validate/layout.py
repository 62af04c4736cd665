"""Shared memory of the second text is that of the first, permuted.

Every shared access of the second text has to be at `π(x)`, where `x` is an address that the first
text accesses in the same segment. It is then looked at as an access to `x`. Since π is one to one
and moves whole granules of complete rows, memories that correspond stay so: an aligned access
inside a granule touches the images of the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from ptxsw.analysis.array_accesses import ArrayAccesses, Name
from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.facts.bit_sums import BitSums
from ptxsw.facts.equality import Equality
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
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
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones, split
from ptxsw.terms.substitution import substitute
from ptxsw.validate.evaluate import Evaluator
from ptxsw.validate.memory_ssa import Bytes, multiple
from ptxsw.validate.outcome import Differ, GiveUp
from ptxsw.validate.path import Path

_TOUCHES = Effect.READ | Effect.WRITE | Effect.CALL
_SIMPLE = isa.opcodes(isa.Trait.SCALAR_ACCESS)
_ADDRESS = 32  # bits of an address in shared memory
_FARTHEST = 1 << 16  # rows between a pointer and what its access adds

Place = tuple[int, Term]
"""The shared address that an instruction accesses."""
Origin = Callable[[Bytes, Sequence[Term], int, int], Bytes]
"""Of what an instruction of the second text accesses, under conditions, by so many bytes: where the
first text has it."""


class SharedLayout:
    """The relation between the two shared memories. `evaluator` is that of the first text, whose
    arrays are taken to lie where those of the second do."""

    def __init__(
        self, permutation: Permutation, evaluator: Evaluator, equality: Equality,
        module: Module, function: Function, before: Iterable[Variable],
    ) -> None:  # fmt: skip
        """`before` are the arrays of the first text, all else is of the second."""
        self.permutation = permutation
        self._sizes = {(v.name, v.scope): v.size for v in before}
        self._terms, self._equality = evaluator.terms, equality
        self._evaluator = evaluator
        arrays = list(shared_arrays(module, function))
        if reads_total(function.body.instructions):
            raise GiveUp("the kernel asks how much shared memory it has")
        self._all = [(v.name, v.scope) for v in arrays]
        self._own = _own(permutation, arrays)
        moved = [v for v in arrays if not permutation.arrays or v in self._own]
        if set(permutation.dynamic) != {v.name for v in moved if v.is_dynamic}:
            raise GiveUp("the permutation leaves an array of dynamic size out of account")
        least = permutation.granule if permutation.arrays else ROW
        for variable in moved:
            if not variable.is_dynamic and not _has_whole_rows(variable, least, permutation):
                raise GiveUp(f"{variable.name} does not consist of whole rows of {ROW} bytes")
            if permutation.padded and self._last(variable) >= variable.size:
                raise GiveUp(f"{variable.name} has no room for its padding")
        self._facts = [
            multiple(self._terms, evaluator.symbol(v.name, v.scope), least)
            for v in moved
            if not v.is_dynamic or permutation.arrays
        ]
        self._sums = BitSums(self._terms, self._aligned(arrays))
        self._mask = self._masked()
        self._answers: dict[tuple[Term, Term], bool] = {}
        self._images: dict[tuple[Term, Name | None], Term] = {}
        self._accesses: tuple[ArrayAccesses, ...] = ()

    def check(self, old: Cfg, new: Cfg) -> None:
        """Raises GiveUp where an instruction of two texts may reach shared memory in a way that is
        not followed."""
        if self.permutation.arrays:
            self._check_own(old, new)
            return
        stray = _stray((*old.instructions, *new.instructions))
        if stray is not None:
            raise GiveUp(f"{stray.name} may reach shared memory, which is permuted")

    def is_whole(self, old: Cfg, new: Cfg) -> bool:
        """Is all shared memory permuted, from one place? Then no access has to stay inside an
        array: wherever it goes, it is permuted."""
        starts = {v.is_dynamic or v.name for v in self._own}
        alone = len(self._own) == len(self._all) and len(starts) == 1
        if self.permutation.padded:
            return False
        return alone and _stray((*old.instructions, *new.instructions)) is None

    def _check_own(self, old: Cfg, new: Cfg) -> None:
        """All addresses of the arrays that are permuted have to be seen."""
        self._accesses = tuple(ArrayAccesses(cfg, self._all) for cfg in (old, new))
        for cfg, accesses in zip((old, new), self._accesses, strict=True):
            for name in self._names:
                at, reason = accesses.obstacles.get(name, (0, ""))
                if reason:
                    raise GiveUp(
                        f"{cfg.instructions[at].name} {reason}, of which a part is permuted"
                    )

    @cached_property
    def _names(self) -> frozenset[Name]:
        return frozenset((v.name, v.scope) for v in self._own)

    def _array(self, text: int, index: int) -> Name | None:
        """The permuted array that an instruction of the first (0) or second (1) text accesses."""
        if not self.permutation.arrays:
            return None
        return next(iter(self._accesses[text].of(index) & self._names), None)

    def touches(self, instruction: Instruction) -> bool:
        """May an instruction access shared memory?"""
        return touches_shared(instruction)

    # ------------------------------------------------------------ addresses

    def origins(self, olds: Sequence[Path]) -> Origin:
        """Gives the bytes of the first text's memory that correspond to what an access of the
        second touches, where the first takes one of these paths. Raises Differ."""
        places = shared_places(olds)
        return lambda target, given, index, size: self._origin(target, places, given, index, size)

    def _origin(
        self, target: Bytes, olds: Sequence[Place], given: Sequence[Term], index: int, size: int
    ) -> Bytes:
        array = self._array(1, index)
        if self.permutation.arrays and array is None:
            return target  # by what `_check_own` has seen
        if target.space == "generic":
            raise Differ("a generic access may reach shared memory, which is permuted", None, index)
        if target.space != "shared":
            return target
        if not 0 < size <= self.permutation.granule:
            raise Differ(f"an access of {size} bytes is wider than a granule", None, index)
        # π is one to one. So it does not matter which of the first text's accesses this one was
        # made from: if its address is the image of one, it touches the image of the same bytes.
        place = self._low(target.place)
        images = [
            (old, self._image(old, array))
            for at, old in dict.fromkeys(olds)
            if self._array(0, at) == array
        ]
        for old, image in images:
            if image is place:
                return Bytes("shared", old, target.size)
        facts = tuple(dict.fromkeys((*self._facts, *given)))
        for old, image in images:
            inside = self._inside(old, array)
            if self._same(image, place, (*facts, *inside)) or self._same_rows(image, place):
                return Bytes("shared", old, target.size)
        raise Differ("a shared address is not the permuted one", None, index)

    def _last(self, variable: Variable) -> int:
        """Where the last byte of an array goes."""
        return self.permutation.of(self._sizes[variable.name, variable.scope] - 1)

    def _inside(self, place: Term, array: Name | None) -> Sequence[Term]:
        """What the assumption says that no access leaves its array, for arrays that are padded."""
        if array is None or not self.permutation.padded:
            return ()
        far = self._terms.sub(self._low(place), self._low(self._evaluator.symbol(*array)))
        return (self._terms.ult(far, self._terms.const(self._sizes[array], _ADDRESS)),)

    def _same_rows(self, image: Term, place: Term) -> bool:
        """Is the second a padded address that the access adds a number to? `x + 300` lies two rows
        behind the row of `x`, if 44 bytes more stay in the row; it lies in the array, so that
        nothing wraps."""
        padding, terms = self.permutation.granule, self._terms
        if not self.permutation.padded:
            return False
        number, items = split(terms.sub(place, image))
        rows = {wrapped(factor, _ADDRESS): row for row, factor in items}
        if rows.keys() != {padding, -padding} or len(items) != 2:
            return False
        before, behind = (_of_row(rows[factor]) for factor in (padding, -padding))
        if before is None or behind is None:
            return False
        distance = terms.sub(behind, before)
        if distance.kind is not op.CONST:
            return False
        more, low = divmod(wrapped(distance.value, _ADDRESS), ROW)
        near = abs(more) < _FARTHEST and (ones(before) & (ROW - 1)) + low < ROW
        return near and wrapped(number, _ADDRESS) == padding * more

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
        fixed = [v for v in arrays if not v.is_dynamic]
        bits = ROW.bit_length() - 1
        if self.permutation.arrays:
            fixed, bits = list(self._own), self.permutation.granule.bit_length() - 1
        return {self._evaluator.symbol(v.name, v.scope): bits for v in fixed}

    def _low(self, place: Term) -> Term:
        """An address in shared memory has 32 bits, whatever the register that holds it."""
        return self._terms.extract(place, 0, _ADDRESS) if place.width > _ADDRESS else place

    def _image(self, place: Term, array: Name | None) -> Term:
        """The image of an address in shared memory, or in an array of it."""
        image = self._images.get((place, array))
        if image is None:
            low, terms = self._low(place), self._terms
            if array is None:
                image = self._permuted(low)
            else:
                start = self._low(self._evaluator.symbol(*array))
                image = terms.add(start, self._permuted(terms.sub(low, start)))
            self._images[place, array] = image
        return image

    def _permuted(self, place: Term) -> Term:
        terms = self._terms
        if self.permutation.padded:
            row = terms.ashr(place, terms.const(ROW.bit_length() - 1, _ADDRESS))
            return terms.add(place, terms.scale(row, self.permutation.granule))
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
        counted = () if self.permutation.arrays else self.permutation.dynamic
        starts = [self._low(evaluator.symbol(name)) for name in counted]
        low = [terms.extract(t, 0, ROW.bit_length() - 1) for t in (size, *starts)]
        whole = [terms.eq(part, terms.const(0, part.width)) for part in low]
        both = whole[0]
        for condition in whole[1:]:
            both = terms.and_(both, condition)
        return terms.ite(both, mask, terms.const(0, _ADDRESS))


def touches_shared(instruction: Instruction) -> bool:
    """May an instruction access shared memory?"""
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return bool(effects & _TOUCHES) and _near(instruction)


def _of_row(row: Term) -> Term | None:
    """The distance, as a signed number, of which a term is the number of its row."""
    shifted = row.args[0] if row.kind is op.SEXT else None
    if shifted is None or shifted.kind is not op.EXTRACT:
        return None
    first = ROW.bit_length() - 1
    whole = shifted.args[0]
    ends = shifted.value == first and shifted.width + first == whole.width == _ADDRESS
    return whole if ends else None


def _stray(instructions: Iterable[Instruction]) -> Instruction | None:
    """One that may reach shared memory in a way that is not followed."""
    for instruction in instructions:
        effects = isa.effects(instruction.opcode, instruction.modifiers)
        simple = instruction.opcode in _SIMPLE and not _elsewhere(instruction)
        if effects & _TOUCHES and not simple and _near(instruction):
            return instruction
    return None


def _near(instruction: Instruction) -> bool:
    """May one of the places that an instruction touches lie in shared memory?"""
    named = any(m.startswith("shared") for m in instruction.modifiers)
    return named or isa.space(instruction) in ("shared", "generic", None)


def _elsewhere(instruction: Instruction) -> bool:
    """May it reach the shared memory of another block?"""
    return any(m.startswith("shared::cluster") for m in instruction.modifiers)


def _no_register(reg: Reg) -> Term:
    raise KeyError(reg)


def shared_places(paths: Iterable[Path]) -> list[Place]:
    """The shared addresses that paths of the first text access."""
    places: list[Place] = []
    for path in paths:
        places += [(t.index, t.target.place) for t in path.touches if t.target.space == "shared"]
        places += [
            (e.index, e.operands[0])
            for e in path.events
            if e.instruction.opcode in _SIMPLE and "shared" in e.what[2]
        ]
    return places


# ---------------------------------------------------------------- declarations


def shared_arrays(module: Module, function: Function) -> Iterable[Variable]:
    """The variables in shared memory that a kernel names."""
    named = named_symbols(function.body.instructions)
    declared = (*module.variables, *function.body.variables)
    return (v for v in declared if v.space == "shared" and (v.name, v.scope) in named)


def named_symbols(instructions: Iterable[Instruction]) -> frozenset[Name]:
    """The symbols that instructions name, with their scopes."""
    return frozenset(
        (leaf.name, leaf.scope)
        for instruction in instructions
        for leaf in leaves(instruction.operands)
        if isinstance(leaf, Symbol)
    )


def reads_total(instructions: Iterable[Instruction]) -> bool:
    """Does a kernel ask how much shared memory it has? Whole rows may take more of it."""
    return any(Special("%total_smem_size") in isa.uses(i) for i in instructions)


def _own(permutation: Permutation, arrays: Sequence[Variable]) -> tuple[Variable, ...]:
    """The arrays that are permuted one by one. Raises GiveUp where such a one is not there, or lies
    where another one does that is not permuted."""
    own = tuple(v for v in arrays if v.name in permutation.arrays)
    if len(own) != len(set(permutation.arrays)) or any(v.scope for v in own):
        raise GiveUp("an array that is permuted is not found")
    dynamic = {v.name for v in arrays if v.is_dynamic}
    if dynamic.isdisjoint(permutation.arrays) or dynamic <= set(permutation.arrays):
        return own
    raise GiveUp("arrays of dynamic size lie at one place, and not all of them are permuted")


def _has_whole_rows(variable: Variable, align: int, permutation: Permutation) -> bool:
    size, row = variable.size, permutation.of(ROW) if permutation.padded else ROW
    whole = (variable.align or 1) % align == 0 and size > 0 and size % row == 0
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
