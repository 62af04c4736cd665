"""Random programs: what each thread does is among what the emulator says of it."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Callable, Iterator, Mapping

import pytest

from ptxsw.analysis.lane_reuse import candidates
from ptxsw.changes.assumptions import LOCKSTEP, NO_RACE
from ptxsw.changes.plan import Proof
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Access, AccessView, Trace
from ptxsw.flow.cfg import Cfg
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module, Reg
from ptxsw.shuffle.legality import Legality
from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.solver import Solver
from tests.emulator.concrete import WINDOW, Event, Thread, place_of
from tests.emulator.programs import program

LANES = 6
BATCHES, PER_BATCH = 6, 25


def module_of(seed: int) -> Module:
    return parse(program(seed))


def params_of(seed: int) -> dict[str, int]:
    source = random.Random(f"params {seed}")
    return {
        "p": 0x10000,
        "q": 0x90000,
        "n": source.choice([0, 1, 2, 3, 5, 40]),
        "m": source.choice([0, 1, 2, 4]),
    }


def thread_of(module: Module, cfg: Cfg, params: Mapping[str, int], lane: int) -> Thread:
    registers = [Reg(f"%r{i}") for i in range(9)] + [Reg(f"%p{i}") for i in range(6)]
    initial = {
        r: zlib.crc32(f"{r.name} {lane}".encode()) % (2 if "p" in r.name else 5) for r in registers
    }
    initial |= {Reg(f"%rd{i}"): 64 * i + lane for i in range(9)} | {Reg("%cc", -1): lane & 1}
    specials = {"%tid.x": lane, "%ctaid.x": 2, "%laneid": lane}
    return Thread(module, cfg, specials, params, initial, {})


class Reading:
    """What the unknowns of a trace stand for at one event of one thread."""

    def __init__(self, trace: Trace, thread: Thread, event: Event) -> None:
        self.event, self.thread = event, thread
        self.headers = {trace.cfg.name(h): h for h in trace.cfg.loops}

    def atom(self, node: Term) -> int | None:
        """None where it stands for something the interpreter does not know."""
        name = str(node.value)
        while name.startswith("last "):
            name = name[5:]
        if name in self.thread.specials:
            return self.thread.specials[name]
        if name in self.thread.params:
            return self.thread.params[name]
        if name == "window(shared)":
            return WINDOW
        if name.startswith("&"):
            return 0x1000 + sum(map(ord, name[1:]))
        if name.startswith("iter("):
            return self.event.counts.get(self.headers[name[5:-1]])
        if name.startswith("loop("):
            label, _, reg = name[5:-1].rpartition(", ")
            head = self.event.heads.get(self.headers[label], {})
            return head.get(Reg(reg, -1 if reg.startswith("%cc") else 0))
        if name.startswith("undefined("):
            reg = name[10:-1]
            return self.thread.initial.get(Reg(reg, -1 if reg.startswith("%cc") else 0))
        return None

    def values(self, terms: tuple[Term, ...]) -> Iterator[dict[Term, int]]:
        """All readings of the unknowns of some terms: a load is one of the values that the thread
        has found at its address, a join one of its parts. Terms that hold anything else are
        left out."""
        known: dict[Term, int] = {}
        choices: list[Term] = []
        for node in walk(*terms):
            if node.kind is op.ATOM:
                value = self.atom(node)
                if value is not None:
                    known[node] = value & ((1 << node.width) - 1)
            elif node.kind is op.APPLY:
                choices.append(node)
        yield from self._choose(known, choices)

    def _choose(self, known: dict[Term, int], left: list[Term]) -> Iterator[dict[Term, int]]:
        if not left:
            yield known
            return
        node, rest = left[0], left[1:]
        options: set[int] = set()
        name = node.value[0]
        try:
            if name[0] == "load":
                address = evaluate(node.args[0], known)
                place = ("shared", address) if name[1] == "shared" else place_of(address)
                options.update(self.event.loads.get(place, ()))
        except KeyError:
            pass
        if not options:
            yield from self._choose(known, rest)
            return
        for option in options:
            yield from self._choose({**known, node: option}, rest)


def truth(term: Term, values: Mapping[Term, int]) -> int | None:
    try:
        return evaluate(term, values)
    except KeyError:
        return None


def fits(trace: Trace, variant: AccessView, reading: Reading, address: int) -> bool:
    """Does the variant tell this address, and do its guard and conditions hold?"""
    terms = (variant.address, variant.guard, *variant.conditions)
    for values in itertools.islice(reading.values(terms), 256):
        if truth(variant.address, values) not in (None, address):
            continue
        if truth(variant.guard, values) == 0:
            continue
        if all(truth(c, values) != 0 for c in variant.conditions):
            return True
    return False


class Uniform:
    """Values that a warp must agree on, lanes in lockstep: the first lane's, by place and
    iteration."""

    def __init__(self) -> None:
        self.seen: dict[tuple[object, ...], tuple[int, int]] = {}

    def agree(self, key: tuple[object, ...], value: int, lane: int) -> None:
        first, who = self.seen.setdefault(key, (value, lane))
        assert first == value, f"{key}: {first} in lane {who}, {value} in lane {lane}"


def check(seed: int) -> int:
    """Runs one program both ways. Returns the number of accesses compared."""
    module = module_of(seed)
    trace = emulate(module, module.functions[-1])
    assert not trace.statistics.timed_out
    by_index = {a.index: a for a in trace.accesses}
    params, uniform = params_of(seed), Uniform()
    compared = 0
    for lane in range(LANES):
        thread = thread_of(module, trace.cfg, params, lane)
        times: dict[tuple[object, ...], int] = {}
        for event in thread.run():
            place = (event.index, event.iterations)
            times[place] = times.get(place, 0) + 1
            if times[place] > 1:
                continue  # a cycle that is no loop: lanes need not be at the same iteration of it
            agree_on(trace, event, uniform, lane)
            gone_round(trace, Reading(trace, thread, event))
            if event.address is None or event.index not in by_index:
                assert event.address is None, f"{event} was not found"
                continue
            if by_index[event.index].space != "param":
                compare(trace, by_index[event.index], thread, event, uniform, lane)
                compared += 1
    return compared


def gone_round(trace: Trace, reading: Reading) -> None:
    """Before each iteration but the first, a loop's condition held for one of the ways into it."""
    for header in trace.cfg.loops_around(trace.cfg.block_of[reading.event.index]):
        count = trace.terms.iteration(trace.cfg.name(header))
        entries = trace.entries.get(count, ())
        if reading.atom(count):
            values = itertools.islice(reading.values(tuple(e.again for e in entries)), 256)
            told = [truth(entry.again, known) for known in values for entry in entries]
            assert not told or any(held != 0 for held in told), f"{count}: {entries}"


def agree_on(trace: Trace, event: Event, uniform: Uniform, lane: int) -> None:
    """Registers and branches that are called uniform are."""
    place = (event.index, event.iterations)
    if event.taken is not None and trace.branches.get(event.index) == Variance.UNIFORM:
        uniform.agree(("branch", *place), event.taken, lane)
    for reg, value in event.written:
        if trace.registers.get(reg) == Variance.UNIFORM:
            uniform.agree((reg.name, *place), value, lane)


def compare(
    trace: Trace, access: Access, thread: Thread, event: Event, uniform: Uniform, lane: int
) -> None:
    assert event.address is not None and event.place is not None
    space, address = event.place
    if access.space == "generic":
        address = event.address
    else:
        assert access.space == space, f"{access.instruction.name} is in {space}"
    reading = Reading(trace, thread, event)
    matching = [v for v in access.variants if fits(trace, v, reading, address)]
    told = "\n".join(
        f"  {v.address} if {v.guard} and {', '.join(map(str, v.conditions))}"
        for v in access.variants
    )
    assert matching, f"lane {lane}, {access.instruction.name} {event}:\n{told}"
    if len(matching) > 1:
        return
    place = (event.index, event.iterations)
    for variant in matching:
        for node in walk(variant.address):
            if node.kind is op.ATOM and node.variance == Variance.UNIFORM:
                value = reading.atom(node)
                if value is not None:
                    uniform.agree((str(node.value), *place), value, lane)
        if variant.address.variance == Variance.UNIFORM:
            uniform.agree(("address", variant.address.id, *place), address, lane)


def shuffled(seed: int) -> int:
    """Runs one program in all lanes and holds every proved pair of loads against it: where lanes
    i and i + N are at the load together, the source in lane i + N had the address that lane i
    wants. Returns the number of pairs of addresses compared."""
    module = module_of(seed)
    solver = Solver()
    trace = emulate(module, module.functions[-1], solver=solver)
    judge = Legality(trace, solver, frozenset({LOCKSTEP, NO_RACE}))
    proved = [
        (found.dest.index, found.source.index, found.delta)
        for _, elements in candidates(trace, 2)
        for several in elements
        for found in several
        if isinstance(proof := judge.legal(found), Proof) and not proof.guards
    ]
    if not proved:
        return 0
    compared = 0
    made = [loads_of(module, trace, seed, lane) for lane in range(LANES)]
    for dest, source, delta in proved:
        for lane in range(max(0, -delta), min(LANES, LANES - delta)):
            for (index, iterations), (address, _) in made[lane].items():
                together = made[lane + delta].get((index, iterations))
                if index == dest and together is not None:
                    theirs = together[1].get(source)
                    assert theirs == address, (
                        f"{source}->{dest}, {delta}, lane {lane} at {iterations}"
                    )
                    compared += 1
    return compared


Loads = dict[tuple[int, tuple[tuple[int, int], ...]], tuple[int, dict[int, int]]]


def loads_of(module: Module, trace: Trace, seed: int, lane: int) -> Loads:
    """The address of each access of a lane, by instruction and iterations, with the newest address
    of every access before it."""
    found: Loads = {}
    newest: dict[int, int] = {}
    for event in thread_of(module, trace.cfg, params_of(seed), lane).run():
        if event.address is not None:
            found[event.index, event.iterations] = event.address, dict(newest)
            newest[event.index] = event.address
    return found


def run_all(seeds: range, one: Callable[[int], int]) -> int:
    """The sum over the seeds; a failure names its seed and shows the program."""
    total = 0
    for seed in seeds:
        try:
            total += one(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{program(seed)}") from error
    return total


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs(batch: int) -> None:
    assert run_all(range(batch * PER_BATCH, (batch + 1) * PER_BATCH), check) > 100


def test_proved_pairs_of_random_programs() -> None:
    assert run_all(range(12), shuffled) > 10


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
def test_many_random_programs(batch: int) -> None:
    seeds = range(1000 + batch * 100, 1100 + batch * 100)
    assert run_all(seeds, check) > 100
    assert run_all(seeds, shuffled) > 50
