"""What is claimed at loop headers of the registers that `lower_scalar_replacement` adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ptxsw.changes.claim import Claim, Relation
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.entry_guard import write_guard
from ptxsw.codegen.loop_guard import GuardedLoop, guard_claim
from ptxsw.codegen.lower_scalar_replacement import (
    Carried,
    DeferredStores,
    Lowering,
    shared_test,
)
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, type_width


class _Claims(Struct):
    """Names of a claim's own registers."""

    types: list[str] = field(default_factory=list)

    def new(self, kind: str) -> str:
        self.types.append(kind)
        return f"%claimed{len(self.types)}"

    @property
    def declared(self) -> str:
        return "".join(f".reg .{t} %claimed{n};\n" for n, t in enumerate(self.types, 1))


def claims(
    text: str, function: Function, cfg: Cfg, builder: Builder, details: Sequence[Any]
) -> Mapping[Any, tuple[Claim, ...]]:
    """What has to hold where the loops begin, by detail: in the names that `lower` gives to the
    same details in the same order."""
    lowering = Lowering(builder, text, function, cfg)
    predicates = lowering.predicates(details)
    test = shared_test(details)
    everywhere = "" if test is None else write_guard(builder, test)
    claims_at: dict[Any, tuple[Claim, ...]] = {}
    for detail in details:
        where = predicates.get(detail.header, everywhere)
        own: Iterable[Claim] = ()
        if isinstance(detail, Carried):
            own = _held(lowering, detail, lowering.names(detail.at), where)
        elif isinstance(detail, DeferredStores):
            own = _stored(lowering, detail, lowering.names(detail.stores[-1]), where)
        if isinstance(detail.test, GuardedLoop):
            label = cfg.name(detail.header)
            own = (guard_claim(label, where, detail.test.conditions, text), *own)
        claims_at[detail] = tuple(own)
    return claims_at


def _held(lowering: Lowering, detail: Carried, names: Sequence[str], where: str) -> Iterable[Claim]:
    """Each register is what the load would give."""
    instruction = lowering.cfg.instructions[detail.at]
    for number, name in enumerate(names):
        own = _Claims()
        lines, place = lowering.address_again(detail.computed, isa.address(instruction), own.new)
        values = [own.new(lowering.builder.names.kind(other)) for other in names]
        dest = values[0] if len(values) == 1 else f"{{{', '.join(values)}}}"
        code = "\n".join([*lines, f"{instruction.name} {dest}, {place};"])
        yield Claim(
            lowering.cfg.name(detail.header), name, code, values[number], own.declared, where=where
        )


def _stored(
    lowering: Lowering, detail: DeferredStores, names: Sequence[str], where: str
) -> Iterable[Claim]:
    """Each register is what is still to be stored."""
    instruction = lowering.cfg.instructions[detail.stores[-1]]
    kind = isa.access_type(instruction) or ""
    space = isa.space(instruction)
    target = isa.address(instruction)
    # If no load fills the register, it is undefined until the first store of the loop: then only
    # the bytes that will be stored may differ between the two memories, and nothing is said of
    # what the register holds.
    relation: Relation = "stored" if detail.loaded else "overwritten"
    for number, name in enumerate(names):
        own = _Claims()
        place = target._replace(offset=target.offset + number * type_width(kind) // 8)
        lines, at = lowering.address_again(detail.computed, place, own.new)
        value = own.new(lowering.builder.names.kind(name))
        code = "\n".join([*lines, f"st.{space}.{kind} {at}, {value};"])
        label = lowering.cfg.name(detail.header)
        yield Claim(label, name, code, value, own.declared, relation, where)
