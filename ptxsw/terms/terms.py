"""Terms: bit vectors, and comparisons of them.

`Terms` is the symbolic algebra of `ptxsw.semantics`. Every rule here and in `bit_vectors.py` is
exact modulo 2^width and is proved with Z3 in `tests/terms/test_terms.py`.
"""

from __future__ import annotations

from ptxsw.terms import op
from ptxsw.terms.bit_vectors import BitVectors
from ptxsw.terms.node import Term, ones, positive, signed


class Terms(BitVectors):
    """A table of terms and the operations on them. All widths are in bits."""

    def eq(self, a: Term, b: Term) -> Term:
        assert a.width == b.width, (a, b)
        if a is b:
            return self.const(1, 1)
        if a.width == 1:
            return self.not_(self.xor(a, b))
        if self.sub(a, b).kind is op.CONST:
            return self.const(0, 1)
        if a.kind is op.CONST:
            a, b = b, a
        if b.kind is op.CONST:
            if b.value & ~ones(a):
                return self.const(0, 1)
            if a.kind is op.ITE:
                c, yes, no = a.args
                if yes.kind is op.CONST and no.kind is op.CONST:
                    return self.ite(c, self.eq(yes, b), self.eq(no, b))
            if a.kind is op.ZEXT:
                inner = a.args[0]
                return self.eq(inner, self.const(b.value, inner.width))
            if a.kind is op.OR and not b.value and all(arg.kind is not op.OR for arg in a.args):
                return self.and_(*(self.eq(arg, b) for arg in a.args))
        return self._node(op.EQ, 1, (a, b) if a.id < b.id else (b, a))

    def ult(self, a: Term, b: Term) -> Term:
        assert a.width == b.width, (a, b)
        if a is b or (b.kind is op.CONST and b.value == 0):
            return self.const(0, 1)
        if a.kind is op.CONST and b.kind is op.CONST:
            return self.const(int(a.value < b.value), 1)
        if b.kind is op.CONST and ones(a) < b.value:
            return self.const(1, 1)
        if a.kind is op.CONST and ones(b) <= a.value:
            return self.const(0, 1)
        return self._node(op.ULT, 1, (a, b))

    def ule(self, a: Term, b: Term) -> Term:
        return self.not_(self.ult(b, a))

    def slt(self, a: Term, b: Term) -> Term:
        assert a.width == b.width, (a, b)
        if a is b:
            return self.const(0, 1)
        if a.kind is op.CONST and b.kind is op.CONST:
            return self.const(int(signed(a) < signed(b)), 1)
        if positive(a) and positive(b):
            return self.ult(a, b)
        return self._node(op.SLT, 1, (a, b))

    def sle(self, a: Term, b: Term) -> Term:
        return self.not_(self.slt(b, a))
