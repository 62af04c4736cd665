"""Which variant each row of loads gets: a pure function of the variants and their figures.

A row is a group of loads that no rewriting connects with others; a variant is what one scheme in
one form makes of it. Rows of one unit (a straight stretch of code, or a loop) share a form. What
decides, in this order:

1. mode force: every row is rewritten, by the variant that is rated best of those that rewrite most
2. a result of `ptxsw tune` for this kernel and architecture
3. the rating alone (`ranking`): rows are taken one by one while the kernel as a whole gets faster.
   What comes of it is weighed like all that is rewritten (`decide`)

Copies are no part of this. Nothing is emitted or measured here.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from ptxsw.cost.ranking import Bounds, Figures, Scale, Wait

ASKED, TUNED, MODEL = "asked", "tuned", "model"


class Variant(Struct, frozen=True):
    """What a scheme in a form would make of a row: `loads` loads rewritten, at the cost of
    `added`. `scheme` "keep": the form alone."""

    scheme: str
    form: str
    loads: int
    added: Figures = field(default_factory=Figures)


class GroupVariants(Struct, frozen=True):
    """The variants of a row. Those picked in rows of one `unit` have one form."""

    unit: int
    variants: tuple[Variant, ...]


class Tuned(Struct, frozen=True):
    """What was measured to be best for the kernel; "keep" for what stays as it is."""

    scheme: str
    form: str
    speedup: float
    device: str
    date: str


class Policy(Struct, frozen=True):
    """What is asked for. `arch` is for messages; `min_gain`, in percent, is what a measurement has
    to have shown."""

    force: bool = False
    min_gain: float | None = None
    arch: str | None = None
    tuned: Tuned | None = None


class Choice(Struct, frozen=True):
    """For each row the number of the variant it gets, or None where it stays as it is.

    `by` says what decided, `gain` what is expected of it (0.04: 4% faster; None: nothing is
    known), `reason` why, in words: of rows that stay as they are why they do.
    """

    picks: tuple[int | None, ...]
    by: str
    gain: float | None
    reason: str

    @property
    def is_measured(self) -> bool:
        """Did a measurement decide?"""
        return self.by == TUNED


def choose(
    rows: Sequence[GroupVariants], original: Figures, scale: Scale | None, policy: Policy
) -> Choice:
    """The choice for one kernel, of which `original` are the figures as it is."""
    if policy.force:
        picks, gain = _best(rows, original, scale, all_of_them=True)
        return Choice(picks, ASKED, gain, _forced(rows, picks, scale, gain))
    if policy.tuned is not None:
        return _as_tuned(rows, policy.tuned, policy.min_gain)
    if scale is None:
        return left_alone(f"no GPU of {policy.arch or 'an unknown target'} is described", len(rows))
    picks, gain = _best(rows, original, scale, all_of_them=False)
    return _rated(rows, picks, gain, original, scale)


def left_alone(reason: str, rows: int = 0) -> Choice:
    """No row is rewritten, but by force."""
    return Choice((None,) * rows, MODEL, None, f"{reason}; {_FORCE}")


_FORCE = "force rewrites it"


# ---------------------------------------------------------------- what was measured


def _as_tuned(rows: Sequence[GroupVariants], tuned: Tuned, min_gain: float | None) -> Choice:
    nothing = (None,) * len(rows)
    place = f"measured on {tuned.device} ({tuned.date})"
    gain = tuned.speedup - 1
    if (tuned.scheme, tuned.form) == ("keep", "keep"):
        return Choice(nothing, TUNED, 0.0, f"{place}: nothing is faster than the original")
    if not tuned.form:
        said = f"{place}: {tuned.speedup:.3f} times as fast with {tuned.scheme}"
        return Choice(nothing, TUNED, 0.0, said)
    variant = _named(tuned)
    faster = f"{place}: {tuned.speedup:.3f} times as fast with {variant}"
    if min_gain is not None and gain * 100 < min_gain:
        return Choice(nothing, TUNED, 0.0, f"{faster}, less than the {min_gain:g}% asked for")
    measured = tuned.scheme, tuned.form
    picks = tuple(
        next(
            (n for n, v in enumerate(r.variants) if (v.scheme, v.form) == measured),
            None,
        )
        for r in rows
    )
    if all(pick is None for pick in picks):
        return Choice(picks, TUNED, 0.0, f"{faster}, which cannot be made here")
    return Choice(picks, TUNED, gain, faster)


def _named(variant: Variant | Tuned) -> str:
    return f"scheme {variant.scheme}, form {variant.form}"


def _percent(gain: float) -> str:
    """`+4.2%`; what rounds to nothing is `+0.0%`."""
    return f"{round(100 * gain, 1) + 0.0:+.1f}%"


# ---------------------------------------------------------------- what counts say


def _forced(
    rows: Sequence[GroupVariants],
    picks: Sequence[int | None],
    scale: Scale | None,
    gain: float | None,
) -> str:
    if scale is None or gain is None or all(len(row.variants) < 2 for row in rows):
        return "asked for by mode force"
    return f"rated best for {scale.name}, by counts: {_percent(gain)}"


def _rated(
    rows: Sequence[GroupVariants],
    picks: tuple[int | None, ...],
    gain: float | None,
    original: Figures,
    scale: Scale,
) -> Choice:
    """The picks, where they promise anything; else nothing, and what rewriting everything would
    give."""
    source = f"by counts for {scale.name}"
    if gain is not None and gain > 0 and any(p is not None for p in picks):
        return Choice(picks, MODEL, gain, f"{source}: {_percent(gain)}")
    forced, loss = _best(rows, original, scale, all_of_them=True)
    best = next((rows[n].variants[p] for n, p in enumerate(forced) if p is not None), None)
    at_best = "no gain"
    if best is not None and loss is not None:
        at_best = f"{_percent(loss)} at best ({_named(best)})"
    return Choice((None,) * len(rows), MODEL, loss, f"{source}: {at_best}; {_FORCE}")


def _gain(before: float, after: float) -> float:
    return before / after - 1 if after else 0.0


# ---------------------------------------------------------------- searching


_State = tuple[Bounds, float, dict[int, tuple[float, Wait]]]


class _Kernel:
    """The cost of a kernel while rows are being picked. Adding a variant and taking it back cost as
    much as the variant is long, however long the kernel is."""

    def __init__(self, original: Figures, scale: Scale) -> None:
        self._scale = scale
        self._bounds = scale.bounds(original)
        self._waits = dict(original.waits)
        self._waiting = sum(scale.waiting(*one) for one in original.waits.values())

    def cycles(self) -> float:
        return self._scale.total(self._bounds, self._waiting)

    def add(self, variant: Variant) -> _State:
        """Adds a variant; `back` with the result takes it out again."""
        before: dict[int, tuple[float, Wait]] = {}
        state = (self._bounds, self._waiting, before)
        a, b, c, d = self._bounds
        e, f, g, h = self._scale.bounds(variant.added)
        self._bounds = (a + e, b + f, c + g, d + h)
        for stretch, (times, wait) in variant.added.waits.items():
            now = before[stretch] = self._waits.get(stretch, (times, Wait()))
            self._waits[stretch] = (times, now[1] | wait)
            self._waiting += self._scale.waiting(*self._waits[stretch])
            self._waiting -= self._scale.waiting(*now)
        return state

    def back(self, state: _State) -> None:
        self._bounds, self._waiting, waits = state
        self._waits.update(waits)


def _best(
    rows: Sequence[GroupVariants], original: Figures, scale: Scale | None, *, all_of_them: bool
) -> tuple[tuple[int | None, ...], float | None]:
    """The picks that are rated best, and the gain they promise; without a scale the first
    variant of each row that rewrites most. With `all_of_them` no row that has a variant stays as
    it is."""
    units: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        units.setdefault(row.unit, []).append(number)
    picks: list[int | None] = [None] * len(rows)
    kernel = None if scale is None else _Kernel(original, scale)
    before = 0.0 if kernel is None else kernel.cycles()
    for numbers in units.values():
        unit = _unit([rows[n] for n in numbers], kernel, all_of_them=all_of_them)
        for number, pick in zip(numbers, unit, strict=True):
            picks[number] = pick
            if kernel is not None and pick is not None:
                kernel.add(rows[number].variants[pick])
    return tuple(picks), None if kernel is None else _gain(before, kernel.cycles())


def _unit(
    rows: Sequence[GroupVariants], kernel: _Kernel | None, *, all_of_them: bool
) -> tuple[int | None, ...]:
    """The best picks for rows that have to share a form: in each form the best variant of one
    row after the other, or one scheme for all."""
    best: tuple[int | None, ...] = (None,) * len(rows)
    best_rank = _rank_of_nothing(kernel, all_of_them)
    for form in dict.fromkeys(variant.form for row in rows for variant in row.variants):
        variants = [variant for row in rows for variant in row.variants if variant.form == form]
        for scheme in (None, *dict.fromkeys(variant.scheme for variant in variants)):
            picked, rank = _picked(rows, form, scheme, kernel, all_of_them=all_of_them)
            if rank < best_rank:
                best, best_rank = picked, rank
    return best


def _rank_of_nothing(kernel: _Kernel | None, all_of_them: bool) -> tuple[int, float]:
    """The rank that a variant has to be below: of none at all, or what everything is below."""
    return (1, 0.0) if all_of_them else (0, 0.0 if kernel is None else kernel.cycles())


def _picked(
    rows: Sequence[GroupVariants],
    form: str,
    scheme: str | None,
    kernel: _Kernel | None,
    *,
    all_of_them: bool,
) -> tuple[tuple[int | None, ...], tuple[int, float]]:
    """Picks in one form, by one scheme if it is given, and their rank: the lower the better."""
    picked: list[int | None] = []
    added: list[_State] = []
    loads = 0
    for row in rows:
        if scheme is None:
            pick = _row(row, form, kernel, all_of_them=all_of_them)
        else:
            wanted = (w.form == form and w.scheme == scheme for w in row.variants)
            pick = next((n for n, this in enumerate(wanted) if this), None)
        picked.append(pick)
        if pick is not None:
            loads += row.variants[pick].loads
            if kernel is not None:
                added.append(kernel.add(row.variants[pick]))
    rank = (-loads if all_of_them else 0, 0.0 if kernel is None else kernel.cycles())
    for state in reversed(added):
        assert kernel is not None
        kernel.back(state)
    return tuple(picked), rank


def _row(row: GroupVariants, form: str, kernel: _Kernel | None, *, all_of_them: bool) -> int | None:
    """The best variant of one row in a form, beside those that are in the kernel already."""
    best: int | None = None
    best_rank = _rank_of_nothing(kernel, all_of_them)
    for number, variant in enumerate(row.variants):
        if variant.form != form:
            continue
        cycles = 0.0
        if kernel is not None:
            state = kernel.add(variant)
            cycles = kernel.cycles()
            kernel.back(state)
        rank = (-variant.loads if all_of_them else 0, cycles)
        if rank < best_rank:
            best, best_rank = number, rank
    return best
