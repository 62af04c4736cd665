"""How long work takes on a GPU, as an interval.

Each resource needs a time by itself: what is asked of it over what it can do. If all of them
overlap, the work takes as long as the busiest (the lower end); if nothing overlaps, the sum of all
(the upper end). The truth lies between. As in V. Volkov, "Understanding Latency Hiding on GPUs",
UC Berkeley 2016, waiting is a resource, too: a warp's dependent instructions one after the other,
over the warps that are resident. Figures of the machine and traffic that only bounds are known of
widen both ends.

What to expect between the ends depends on how much there is to overlap. For N customers that go
round among servers, each at its own pace, J. Zahorjan, K. Sevcik, D. Eager and B. Galler ("Balanced
Job Bound Analysis of Queueing Networks", CACM 25, 1982) give max + (sum - max) / N at most. The
customers here are the blocks of a multiprocessor: the warps of a block begin together and want the
same at the same time.

    compute   warp instructions over those issued in a cycle, or one pipeline's share of them
    shared    passes through the banks of shared memory
    l1        global loads and stores in the first-level cache
    l2        bytes between the first-level caches and the second
    dram      bytes between the second-level cache and memory
    tensor    multiply-adds of tensor cores, at the rate of their types
    latency   cycles in which a warp alone would wait

What has no figures, such as how long tensor cores are waited for, may take any time beyond the
busiest resource that has: the upper end is open, and it is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES, LINE, SECTOR
from ptxsw.cost.account import Account, Interval, exactly, greatest, total
from ptxsw.cost.gpu import PIPES, Gpu

_SURE: Final = 2.5**0.5  # so that the ends are a factor of 2.5 apart at most
_NONE: Final = exactly(0.0)


class Resource(Struct, frozen=True):
    """How long one resource is busy, and with what."""

    name: str
    time: Interval
    busy_with: str


class Estimate(Struct, frozen=True):
    """How long some work takes: bounds, and of each resource by itself, the busiest first. The
    upper bound is infinite where part of the work is not modelled. `unit` is "s", or "cycles" of a
    multiprocessor. `apart` are the blocks of a multiprocessor that are independent of each other; 1
    where that is not known. `unmodelled` names the work without figures."""

    time: Interval
    resources: tuple[Resource, ...]
    unit: str = "s"
    apart: float = 1.0
    unmodelled: tuple[str, ...] = ()

    @property
    def bound(self) -> str:
        """The resource that is busiest."""
        return self.resources[0].name

    @property
    def is_open(self) -> bool:
        """Is nothing known of the upper end?"""
        return self.time.high == inf

    @property
    def expected(self) -> float:
        """The one time to name, if one has to be; infinite where the upper end is open."""
        if self.is_open:
            return inf
        ends = (
            max(times) + (sum(times) - max(times)) / self.apart
            for times in (
                [resource.time.low for resource in self.resources],
                [resource.time.high for resource in self.resources],
            )
        )
        return Interval(*ends).middle

    @property
    def likely(self) -> Interval:
        """What of the bounds is within a factor of `_SURE` of what is expected.
        `benchmarks.predict` counts how many measured times lie in it."""
        if self.is_open:
            return self.time
        return Interval(
            max(self.time.low, self.expected / _SURE), min(self.time.high, self.expected * _SURE)
        )


def estimate(gpu: Gpu, account: Account) -> Estimate:
    """How long a GPU takes."""
    clock = gpu.of("clock") * 1e6
    sms = gpu.of("sms")
    cycles = _busy_cycles(gpu, account)
    resources = [
        Resource(name, _spread(needed, account.blocks, sms) / clock, what)
        for name, (needed, what) in cycles.items()
    ]
    resources += [
        Resource("l2", account.l2_bytes / _product(gpu.of("l2_bytes"), clock), "bytes"),
        Resource("dram", account.dram_bytes / (gpu.of("dram_copy") * 1e9), "bytes"),
        Resource("latency", _waiting(gpu, account) / clock, "dependent instructions"),
    ]
    apart = max(1.0, min(account.resident, account.blocks / sms.high))
    return _together(resources, "s", apart, _unmodelled(gpu, account))


def iteration(gpu: Gpu, account: Account, warps: Interval) -> Estimate:
    """Cycles of a multiprocessor for one warp that does some work, one iteration of a loop, say,
    beside others that do the same; `warps` are resident. `account` is what one warp asks for: its
    `blocks` and `resident` say nothing."""
    clock = gpu.of("clock") * 1e6
    share = _product(clock, gpu.of("sms"))
    resources = [Resource(name, *asked) for name, asked in _busy_cycles(gpu, account).items()]
    l2 = gpu.of("l2_bytes") / gpu.of("sms")
    dram = gpu.of("dram_copy") * 1e9 / share
    resources += [
        Resource("l2", account.l2_bytes / l2, "bytes"),
        Resource("dram", account.dram_bytes / dram, "bytes"),
        Resource("latency", account.chain / warps, "dependent instructions"),
    ]
    return _together(resources, "cycles", 1.0, _unmodelled(gpu, account))


def _together(
    resources: list[Resource], unit: str, apart: float, unmodelled: tuple[str, ...]
) -> Estimate:
    resources.sort(key=lambda r: (r.time.middle, r.time.high), reverse=True)
    low = greatest(r.time for r in resources).low
    high = inf if unmodelled else total(r.time for r in resources).high
    return Estimate(Interval(low, high), tuple(resources), unit, apart, unmodelled)


def _unmodelled(gpu: Gpu, account: Account) -> tuple[str, ...]:
    """What has no figures, of the work or of the GPU."""
    slow = [
        f"{rate} in {opcode} on {gpu.name}"
        for opcode, rate in account.tensor
        if gpu.tensor_rate(rate, opcode) is None
    ]
    return (*account.unmodelled, *slow)


def _busy_cycles(gpu: Gpu, account: Account) -> Mapping[str, tuple[Interval, str]]:
    """Cycles of one multiprocessor that did all the work, and what it does in them."""
    issued = {"issue slots": account.instructions / gpu.of("issue")}
    for pipe in PIPES:
        issued[f"pipe {pipe}"] = account.pipes.get(pipe, _NONE) * LANES / gpu.lanes(pipe)
    busiest = max(issued, key=lambda name: (issued[name].middle, issued[name].high))
    products = ((gpu.tensor_rate(rate, op), n) for (op, rate), n in account.tensor.items())
    tensor = total(count / rate for rate, count in products if rate is not None)
    by_lanes = account.lanes / gpu.of("l1_lanes")
    by_bytes = account.sectors * SECTOR / gpu.of("l1_bytes")
    return {
        "compute": (greatest(issued.values()), busiest),
        "shared": (account.passes * LINE / gpu.of("shared"), "bank passes"),
        "l1": (greatest((by_lanes, by_bytes)), "global accesses"),
        "tensor": (tensor, "products of matrices"),
        **{name: (cycles, "one after another") for name, cycles in account.others.items()},
    }


def _spread(cycles: Interval, blocks: float, sms: Interval) -> Interval:
    """Over the multiprocessors: evenly at best; at worst in whole blocks."""
    if blocks <= 0:
        return _NONE
    even = cycles / Interval(min(sms.low, blocks), min(sms.high, blocks))
    return Interval(even.low, max(even.high, cycles.high * -(-blocks // sms.low) / blocks))


def _waiting(gpu: Gpu, account: Account) -> Interval:
    """Cycles of all rounds of resident blocks: parts of a round count as such at best."""
    slots = gpu.of("sms") * max(account.resident, 1.0)
    rounds = account.blocks / slots.high
    return Interval(account.chain.low * max(rounds, 1.0 if account.blocks else 0.0),
                    account.chain.high * -(-account.blocks // slots.low))  # fmt: skip


def _product(a: Interval, b: Interval) -> Interval:
    return Interval(a.low * b.low, a.high * b.high)
