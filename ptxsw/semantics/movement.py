"""Data movement between registers: PTX ISA 9.0, section 9.7.9."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.integer import same_width
from ptxsw.semantics.registry import AS_IS, Meaning, Modifiers, V, semantics, widen

MOVABLE = (
    "pred", "b16", "b32", "b64", "b128",
    "u16", "u32", "u64", "s16", "s32", "s64", "f16", "bf16", "f32", "f64",
)  # fmt: skip


def _same(g: Algebra[V], a: V) -> V:
    return a


class Move(Meaning, frozen=True):
    """`mov`, whose numbers of operands tell a copy from packing and unpacking."""

    def run(
        self,
        algebra: Algebra[V],
        sources: Sequence[V | int],
        widths: Sequence[int],
        carry: V | None = None,
    ) -> tuple[V, ...]:
        """One source and one destination: a copy. Else the first element is the lowest part."""
        # Vectors come flattened. As many sources as destinations are a copy of each element;
        # else one side is a single register, which the other side's elements make up.
        total = self.results[0]
        if len(sources) == len(widths):
            return tuple(
                self._copy(algebra, source, width)
                for source, width in zip(sources, widths, strict=True)
            )
        parts = max(len(sources), len(widths))
        if min(len(sources), len(widths)) != 1 or total % parts:
            raise ValueError(f"{len(widths)} destinations and {len(sources)} sources")
        size = total // parts
        if len(widths) == 1:
            packed = self.fit(algebra, sources[0], size)
            for source in sources[1:]:
                packed = algebra.concat(self.fit(algebra, source, size), packed)
            return (packed,)
        whole = self.fit(algebra, sources[0], total)
        return tuple(algebra.extract(whole, size * index, size) for index in range(parts))

    def _copy(self, algebra: Algebra[V], source: V | int, width: int) -> V:
        value = self.fit(algebra, source, self.results[0])
        if width in (0, self.results[0]):
            return value
        return widen(algebra, value, self.results[0], width, False)


@semantics("mov", "9.7.9.3")
def mov(m: Modifiers) -> Meaning:
    """d = a; `d = {a, b, …}` packs and `{d, e, …} = a` unpacks, the lowest part first."""
    m.option(("v2", "v4", "v8"))
    type_ = m.type(*MOVABLE)
    return Move((type_.width,), (type_.width,), _same, single=type_.name == "f32")


def _pick(g: Algebra[V], word: V, select: V) -> V:
    """The byte of a 64-bit word that a 4-bit selector names; its bit 3 asks for the sign only."""
    amount = g.shl(g.zext(g.extract(select, 0, 3), 64), g.const(3, 64))
    byte = g.extract(g.lshr(word, amount), 0, 8)
    return g.ite(g.extract(select, 3, 1), g.sext(g.extract(byte, 7, 1), 8), byte)


def _pick_literal(g: Algebra[V], word: V, select: int) -> V:
    byte = g.extract(word, 8 * (select & 7), 8)
    return g.sext(g.extract(byte, 7, 1), 8) if select & 8 else byte


_ORDERS: dict[str, Callable[[int], list[int]]] = {
    "f4e": lambda s: [s, s + 1, s + 2, s + 3],
    "b4e": lambda s: [s, s - 1, s - 2, s - 3],
    "rc8": lambda s: [s, s, s, s],
    "ecl": lambda s: [max(s, i) for i in range(4)],
    "ecr": lambda s: [min(s, i) for i in range(4)],
    "rc16": lambda s: [2 * (s & 1), 2 * (s & 1) + 1] * 2,
}


def _join(g: Algebra[V], parts: Sequence[V]) -> V:
    """Bytes to a word, the lowest first."""
    word = parts[0]
    for part in parts[1:]:
        word = g.concat(part, word)
    return word


def _permute(g: Algebra[V], a: V, b: V, c: V | int) -> V:
    word = g.concat(b, a)
    if isinstance(c, int):
        return _join(g, [_pick_literal(g, word, c >> 4 * i & 15) for i in range(4)])
    return _join(g, [_pick(g, word, g.extract(c, 4 * i, 4)) for i in range(4)])


@semantics("prmt", "9.7.9.7")
def prmt(m: Modifiers) -> Meaning:
    """d = four bytes chosen from the eight of b:a by the nibbles of c, or in a mode by c mod 4."""
    mode = m.option(tuple(_ORDERS))
    m.type("b32")
    if mode is None:
        return Meaning((32, 32, AS_IS), (32,), _permute)
    order = _ORDERS[mode]

    def compute(g: Algebra[V], a: V, b: V, c: V | int) -> V:
        word = g.concat(b, a)

        def bytes_for(select: int) -> V:
            return _join(g, [_pick_literal(g, word, index & 7) for index in order(select)])

        if isinstance(c, int):
            return bytes_for(c & 3)
        low, high = g.extract(c, 0, 1), g.extract(c, 1, 1)
        return g.ite(
            high,  # two bits of c choose among four
            g.ite(low, bytes_for(3), bytes_for(2)),
            g.ite(low, bytes_for(1), bytes_for(0)),
        )

    return Meaning((32, 32, AS_IS), (32,), compute)


SPACES = (
    "const", "global", "local", "shared", "shared::cta", "shared::cluster",
    "param", "param::entry",
)  # fmt: skip


@semantics("cvta", "9.7.9.20")
def cvta(m: Modifiers) -> Meaning:
    """d = a: in our model of memory every address is the same number in its own space and in the
    generic one. The emulator, which follows addresses, adds the window's base by itself."""
    m.flag("to")
    m.choice(*SPACES)
    return same_width(m.type("u32", "u64"), 1, _same)
