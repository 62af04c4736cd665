"""One kernel of a module as a module of its own.

Kernels know nothing of each other, so a text that is read and checked again for each rewrite of
each kernel should not hold the others: then a file of a thousand kernels costs a thousand times
what one of them costs. Whatever else the file declares stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from ptxsw.codegen.splice import Edit, Origins, apply
from ptxsw.parser import parse
from ptxsw.ptx.ir import Function, Module
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source, Span

_BLANK = pattern(r"(?:\s++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_OPERAND = pattern(r"[,(\[{=]\s*+([A-Za-z_$][A-Za-z0-9_$]*+)")


class Excerpt(Struct, frozen=True, dict=True):
    """A kernel, the text that holds it alone, and where that stood in the whole text."""

    name: str
    source: Source
    whole_module: Module | None = None  # given where nothing was left out
    origins: Origins | None = None  # given where something was

    @cached_property
    def module(self) -> Module:
        """Read when it is first asked for."""
        return self.whole_module or parse(self.source)

    @property
    def function(self) -> Function:
        return next(kernel for kernel in self.module.kernels if kernel.name == self.name)

    def offset(self, place: int) -> int:
        """Where in the whole text a place of the excerpt is."""
        return place if self.origins is None else self.origins(place)

    def whole(self, edit: Edit) -> Edit:
        """An edit of the excerpt as one of the whole text."""
        start = self.offset(edit.span.start)
        return Edit(Span(start, start + edit.span.end - edit.span.start), edit.text)


class Excerpts:
    """Takes kernels out of a module, one after the other."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._runs = list(_runs(module))
        self._places = {
            kernel.name: (number, place)
            for number, run in enumerate(self._runs)
            for place, kernel in enumerate(run)
        }
        kept = apply(module.source.text, (Edit(span, "") for span in self._spans(())))
        self._needed = frozenset(self._named_in(kept))

    def of(self, function: Function) -> Excerpt:
        """The excerpt that holds a kernel, and others only where something left in it names them,
        or where they share an array with it whose declaration they must agree on."""
        source = self._module.source
        kept, new = {function.name}, {function.name, *self._needed, *self._sharing(function)}
        while new:
            kept |= new
            texts = [source.slice(self._kernel(name).span) for name in new]
            new = {name for text in texts for name in self._named_in(text)} - kept
        edits = [Edit(span, "") for span in self._spans(kept)]
        if not edits:
            return Excerpt(function.name, source, self._module)
        origins = Origins(len(source.text), edits)

        def line_of(offset: int) -> int:
            return source.line(origins(offset))

        text = apply(source.text, edits)
        return Excerpt(function.name, Source(text, source.name, line_of), None, origins)

    def _named_in(self, text: str) -> set[str]:
        """The kernels whose names stand in a text where operands do."""
        return self._places.keys() & set(_OPERAND.findall(text))

    def _sharing(self, function: Function) -> set[str]:
        """The kernels that name a shared array of the module which this one names, unless it is
        dynamic: nobody changes such a declaration, and each launch has an array of its own."""
        users = self._users_of_arrays.values()
        return {name for names in users if function.name in names for name in names}

    @cached_property
    def _users_of_arrays(self) -> dict[str, set[str]]:
        """The kernels that name each shared array which the module declares."""
        users: dict[str, set[str]] = {
            v.name: set()
            for v in self._module.variables
            if v.space == "shared" and not v.is_dynamic
        }
        for kernel in self._module.kernels if users else ():
            for name in users.keys() & set(
                _OPERAND.findall(self._module.source.slice(kernel.span))
            ):
                users[name].add(kernel.name)
        return users

    def _kernel(self, name: str) -> Function:
        number, place = self._places[name]
        return self._runs[number][place]

    def _spans(self, kept: Iterable[str]) -> Iterator[Span]:
        """What is left out: kernels with all blanks and comments between them."""
        places = sorted(self._places[name] for name in kept)
        for number, run in enumerate(self._runs):
            here = [place for other, place in places if other == number]
            for before, after in pairwise((-1, *here, len(run))):
                if after - before > 1:
                    yield Span(run[before + 1].span.start, run[after - 1].span.end)


def _runs(module: Module) -> Iterator[list[Function]]:
    """The kernels in order, cut where something else stands between two of them."""
    text, run = module.source.text, list[Function]()
    for kernel in module.kernels:
        if run:
            between = _BLANK.match(text, run[-1].span.end, kernel.span.start)
            if between is None or between.end() != kernel.span.start:
                yield run
                run = []
        run.append(kernel)
    if run:
        yield run
