"""What is claimed at loop headers of the registers that `lower_scalar_replacement` adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ptxsw.changes.claim import Claim, Relation
from ptxsw.codegen.builder import Builder, Names, fresh_prefix
from ptxsw.codegen.entry_guard import write_guard
from ptxsw.codegen.loop_guard import GuardedLoop, declared, guard_claim
from ptxsw.codegen.lower_scalar_replacement import (
    Carried,
    DeferredStores,
    Lowering,
    shared_test,
)
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, type_width


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
        own, new = _names(lowering)
        lines, place = lowering.address_again(detail.computed, isa.address(instruction), new)
        values = [new(lowering.builder.names.kind(other)) for other in names]
        dest = values[0] if len(values) == 1 else f"{{{', '.join(values)}}}"
        code = "\n".join([*lines, f"{instruction.name} {dest}, {place};"])
        yield Claim(
            lowering.cfg.name(detail.header), name, code, values[number], declared(own), where=where
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
        own, new = _names(lowering)
        place = target._replace(offset=target.offset + number * type_width(kind) // 8)
        lines, at = lowering.address_again(detail.computed, place, new)
        value = new(lowering.builder.names.kind(name))
        code = "\n".join([*lines, f"st.{space}.{kind} {at}, {value};"])
        label = lowering.cfg.name(detail.header)
        yield Claim(label, name, code, value, declared(own), relation, where)


def _names(lowering: Lowering) -> tuple[Names, Callable[[str], str]]:
    """A claim's own registers, and what makes another one of a type."""
    own = Names(f"{fresh_prefix(lowering.text)}claim_")
    return own, lambda kind: own.new("value", kind)
