"""What is claimed at loop headers of the registers that `lower_scalar_replacement` adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from msgspec.structs import replace

from ptxsw.changes.claim import Claim, Relation
from ptxsw.codegen.builder import Builder, Names, fresh_prefix
from ptxsw.codegen.entry_guard import write_guard
from ptxsw.codegen.loop_guard import GuardedLoop, declared, guard_claim
from ptxsw.codegen.loop_registers import Carried, DeferredStores
from ptxsw.codegen.lower_scalar_replacement import Lowering, shared_test
from ptxsw.codegen.overflow_checks import renamed
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
    lowering.hold(details)
    test = shared_test(details)
    everywhere = "" if test is None else write_guard(builder, test)
    claims_at: dict[Any, tuple[Claim, ...]] = {}
    for detail in details:
        where = predicates.get(detail.header, everywhere)
        own: Iterable[Claim] = ()
        if isinstance(detail, Carried):
            own = _held(lowering, detail, lowering.names_of(detail), where)
        elif isinstance(detail, DeferredStores):
            own = _stored(lowering, detail, lowering.names(detail.stores[-1]), where)
            if detail.compared:
                own = (*own, _placed(lowering, detail, where))
        if isinstance(detail.test, GuardedLoop):
            label = cfg.name(detail.header)
            own = (guard_claim(label, where, detail.test.conditions, text), *own)
        held = [d for d in details if d.header == detail.header and _is_named(d)]
        claims_at[detail] = tuple(_declaring(lowering, claim, held) for claim in own)
    return claims_at


def _is_named(detail: Any) -> TypeGuard[Carried]:
    """Does a test know the register of a load by its name?"""
    return isinstance(detail, Carried) and bool(detail.register)


def _declaring(lowering: Lowering, claim: Claim, held: Iterable[Carried]) -> Claim:
    """The claim with the named registers declared that it speaks of."""
    kind = lowering.builder.names.kind
    names = [d.register for d in held if renamed(claim.code, {d.register: ""}) != claim.code]
    more = "".join(f" .reg .{kind(name)} {name};" for name in names)
    return replace(claim, declare=claim.declare + more) if names else claim


def _held(lowering: Lowering, detail: Carried, names: Sequence[str], where: str) -> Iterable[Claim]:
    """Each register is what the load would give."""
    instruction = lowering.cfg.instructions[detail.at]
    for number, name in enumerate(names):
        own, new = _names(lowering)
        lines, place = lowering.address_again(detail.computed, isa.address(instruction), new)
        values = [new(lowering.builder.names.kind(other)) for other in names]
        dest = values[0] if len(values) == 1 else f"{{{', '.join(values)}}}"
        code = "\n".join([*lines, f"{instruction.name} {dest}, {place};"])
        # What stores go through has to be known before it is known what they store.
        relation: Relation = "loaded" if detail.register else "is"
        label = lowering.cfg.name(detail.header)
        yield Claim(label, name, code, values[number], declared(own), relation, where)


def _stored(
    lowering: Lowering, detail: DeferredStores, names: Sequence[str], where: str
) -> Iterable[Claim]:
    """Each register is what is still to be stored."""
    instruction = lowering.cfg.instructions[detail.stores[-1]]
    kind = isa.access_type(instruction) or ""
    space = isa.space(instruction)
    target = isa.address(lowering.cfg.instructions[detail.first])
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


def _placed(lowering: Lowering, detail: DeferredStores, where: str) -> Claim:
    """A register is the address of what is still to be stored."""
    own, new = _names(lowering)
    value = new("b64")
    lines = lowering.place_again(detail, value, new)
    label, place = lowering.cfg.name(detail.header), lowering.place_of(detail)
    return Claim(label, place, "\n".join(lines), value, declared(own), "is", where)


def _names(lowering: Lowering) -> tuple[Names, Callable[[str], str]]:
    """A claim's own registers, and what makes another one of a type."""
    own = Names(f"{fresh_prefix(lowering.text)}claim_")
    return own, lambda kind: own.new("value", kind)
