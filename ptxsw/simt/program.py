"""A module linked for one launch: addresses of its variables, their first values, its code."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import (
    Directive,
    Function,
    Module,
    Symbol,
    Variable,
    leaves,
)
from ptxsw.simt.code import Code, align_of, size_of
from ptxsw.simt.initialisers import initialiser, words
from ptxsw.simt.memory import CODE, GARBAGE, SHARED, WINDOW, Arena, Array, Buffer

HEAP = 1 << 20  # bytes that `malloc` has to give, of programs that call it


class Program:
    """One kernel of a module with its arguments, ready to run."""

    def __init__(
        self,
        module: Module,
        kernel: Function,
        args: Sequence[Any],
        dynamic_shared: int = 0,
        memory: Mapping[int, Array] | None = None,
        variables: Mapping[str, Array] | None = None,
        read_only: frozenset[int] = frozenset(),
    ) -> None:
        self.module, self.kernel = module, kernel
        self.contents = variables or {}
        self.arena = Arena()
        self.functions = _by_name(module)
        self._aliases = _aliases(module)
        self.numbers = {name: CODE + 16 * at for at, name in enumerate(self.functions)}
        self.names = {address: name for name, address in self.numbers.items()}
        self.symbols: dict[str, int] = {}
        self.local_symbols: dict[tuple[str, str], int] = {}
        self.parameters: dict[str, int] = {}
        self.codes: dict[str, Code] = {}  # what `translate` makes of `used`
        self.shared_size = 0
        self.static_shared = 0
        self.has_dynamic_shared = False  # does it name any?
        self.shared_top = 0  # bytes of the shared memory of a block that some thread reached
        self.used = used = self._reachable()
        self._lay_out(used, dynamic_shared)
        self.placed = {
            address: (
                self._placed(address, array.nbytes, address not in read_only),
                array,
            )
            for address, array in (memory or {}).items()
        }
        self.heap = self.arena.add("heap", HEAP) if "malloc" in used else None
        self.heap_used = 0
        self._take_arguments(args)

    def _placed(self, address: int, size: int, writable: bool) -> Buffer:
        return self.arena.add(f"memory at {address:#x}", size, writable=writable, address=address)

    # ------------------------------------------------------------ what is used

    def function_named(self, name: str) -> str:
        """The function that a name stands for: `.alias name, function;`."""
        return self._aliases.get(name, name)

    def never_returns(self, name: str) -> bool:
        """Is it a function that is declared `.noreturn`?"""
        function = self.functions.get(name)
        return function is not None and any(d == "noreturn" for d, _ in function.directives)

    def _reachable(self) -> list[str]:
        """The kernel, and what it may call: functions named in bodies and in tables."""
        work, seen = [self.kernel.name], [self.kernel.name]
        tables = [v for v in self.module.variables if v.initialised]
        for variable in tables:
            for written in words(self.module.source.slice(variable.span)):
                word = self.function_named(written)
                if word in self.functions and word not in seen:
                    work.append(word)
                    seen.append(word)
        while work:
            function = self.functions[work.pop()]
            if function.body_span is None:
                continue
            for symbol in _symbols(function):
                name = self.function_named(symbol.name)
                if name in self.functions and name not in seen:
                    work.append(name)
                    seen.append(name)
        return seen

    def _lay_out(self, used: list[str], dynamic_shared: int) -> None:
        """Addresses for all variables; dynamic shared memory comes after the static."""
        named = {
            symbol.name
            for name in used
            if self.functions[name].body_span is not None
            for symbol in _symbols(self.functions[name])
        }
        open_ones: list[str] = []
        buffers: list[tuple[Variable, Buffer]] = []
        for variable in self.module.variables:
            if variable.space == "shared":
                if variable.name in named:
                    self._shared(variable, self.symbols, variable.name, open_ones)
            elif variable.space in ("global", "const"):
                size = max(size_of(variable), 1)
                writable = variable.space == "global"
                buffer = self.arena.add(variable.name, size, align_of(variable), writable)
                self.symbols[variable.name] = buffer.address
                buffers.append((variable, buffer))
        for name in used:
            if self.functions[name].body_span is not None:
                buffers += self._lay_out_body(name, open_ones)
        self.static_shared = self.shared_size
        self.has_dynamic_shared = bool(open_ones)
        self.dynamic_start = start = -(-self.shared_size // 16) * 16
        for name in open_ones:
            self.symbols[name] = SHARED + start
        self.shared_size = -(-(start + dynamic_shared) // 16) * 16
        if self.shared_size > WINDOW:
            raise self._error(f"{self.shared_size} bytes of shared memory", self.kernel)
        self._buffers = buffers

    def _lay_out_body(self, name: str, open_ones: list[str]) -> list[tuple[Variable, Buffer]]:
        buffers = []
        for variable in self.functions[name].body.variables:
            key = name, variable.name
            if variable.space == "shared":
                self._shared(variable, self.local_symbols, key, open_ones)
            elif variable.space in ("global", "const"):
                size = max(size_of(variable), 1)
                writable = variable.space == "global"
                buffer = self.arena.add(variable.name, size, align_of(variable), writable)
                self.local_symbols[key] = buffer.address
                buffers.append((variable, buffer))
        return buffers

    def _shared(
        self, variable: Variable, table: dict[Any, int], key: Any, open_ones: list[str]
    ) -> None:
        if size_of(variable) == 0 or "extern" in variable.linkage:
            open_ones.append(variable.name)
            return
        align = align_of(variable)
        self.shared_size = -(-self.shared_size // align) * align
        table[key] = SHARED + self.shared_size
        self.shared_size += size_of(variable)

    def address(self, name: str, function: Function) -> int:
        """The address of a variable, kernel parameter or function. Raises ValueError."""
        address = self.local_symbols.get((function.name, name))
        if address is None and function is self.kernel:
            address = self.parameters.get(name)
        if address is None:
            address = self.symbols.get(name, self.numbers.get(self.function_named(name)))
        if address is None:
            raise ValueError(f"{name} has no address")
        return address

    # ------------------------------------------------------------ arguments

    def _take_arguments(self, args: Sequence[Any]) -> None:
        """Makes buffers of arrays, packs the parameters, and sets the first values."""
        params = self.kernel.params
        if len(args) != len(params):
            raise self._error(f"{len(params)} parameters, but {len(args)} arguments", self.kernel)
        self.outputs: list[tuple[Buffer, Array]] = []
        packed: list[bytes] = []
        for variable, value in zip(params, args, strict=True):
            if isinstance(value, np.ndarray):
                buffer = self.arena.add(variable.name, value.nbytes)
                self.outputs.append((buffer, value))
                value = buffer.address
            packed.append(self._pack(variable, value))
        at, places = 0, []
        for variable, data in zip(params, packed, strict=True):
            at = -(-at // align_of(variable)) * align_of(variable)
            places.append(at)
            at += len(data)
        block = self.arena.add("parameters", max(at, 1), writable=False)
        for variable, place in zip(params, places, strict=True):
            self.parameters[variable.name] = block.address + place
        try:
            self.arena.build()
        except ValueError as error:
            raise self._error(str(error), self.kernel) from error
        for place, data in zip(places, packed, strict=True):
            self.arena.bytes_of(block)[place : place + len(data)] = np.frombuffer(data, np.uint8)
        for buffer, array in (*self.outputs, *self.placed.values()):
            if not array.flags.writeable and not any(array.strides):
                self._fill_with(buffer, array)
                continue
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.arena.bytes_of(buffer)[:] = flat
        for variable, buffer in self._buffers:
            self._initialise(variable, buffer)

    def _fill_with(self, buffer: Buffer, array: Array) -> None:
        """One element everywhere, as `np.broadcast_to` makes an array of it. Zeros are there
        already, so that buffers larger than the memory of this machine cost nothing."""
        element = array.reshape(-1)[:1].view(np.uint8) if array.size else array
        if element.any():
            self.arena.bytes_of(buffer).reshape(-1, len(element))[:] = element

    def _pack(self, variable: Variable, value: Any) -> bytes:
        """An argument as the bytes of its parameter."""
        size = size_of(variable)
        if isinstance(value, bytes):
            data = value
        elif isinstance(value, np.void):
            data = value.tobytes()
        elif variable.dims:
            raise self._error(f"parameter {variable.name} takes {size} bytes", self.kernel)
        elif variable.type in ("f32", "f64"):
            data = struct.pack("<f" if size == 4 else "<d", float(value))
        elif isinstance(value, float | np.floating):
            data = np.array([value], f"f{size}").tobytes()
        else:
            data = (int(value) % (1 << 8 * size)).to_bytes(size, "little")
        if len(data) != size:
            raise self._error(
                f"parameter {variable.name} takes {size} bytes, not {len(data)}", self.kernel
            )
        return data

    def _error(self, message: str, function: Function) -> Unsupported:
        span = function.span
        return Unsupported(f"{function.name}: {message}", self.module.source, span)

    # ------------------------------------------------------------ first values

    def _initialise(self, variable: Variable, buffer: Buffer) -> None:
        data = self.arena.bytes_of(buffer)
        given = self.contents.get(variable.name)
        if given is not None:
            self._fill(data, 0, given.tobytes())
            return
        if not variable.initialised:
            return
        values = initialiser(self.module.source.slice(variable.span), variable)
        data[:] = 0
        self._fill(data, 0, values.constants)
        for item in values.linked:
            try:
                value = item.value(lambda name: self.address(name, self.kernel))
            except ValueError as error:
                raise Unsupported(str(error), self.module.source, variable.span) from error
            self._fill(data, item.at, value)

    @staticmethod
    def _fill(data: Array, at: int, value: bytes) -> None:
        """What of a value lies inside its variable."""
        inside = np.frombuffer(value, np.uint8)[: max(len(data) - at, 0)]
        data[at : at + len(inside)] = inside

    def shared_memory(self, blocks: int) -> Array:
        """Fresh shared memory of so many blocks, of a content nobody should rely on."""
        return np.full(blocks * self.shared_size, GARBAGE, np.uint8)


def _by_name(module: Module) -> dict[str, Function]:
    """Functions by name, definitions before declarations."""
    functions: dict[str, Function] = {}
    for function in module.functions:
        if function.name not in functions or function.body_span is not None:
            functions[function.name] = function
    return functions


def _aliases(module: Module) -> dict[str, str]:
    """`.alias other, function;`: what each other name stands for."""
    pairs = [d.names for d in module.directives if d.name == "alias"]
    return {pair[-2]: pair[-1] for pair in pairs if len(pair) > 1}


def _symbols(function: Function) -> Iterator[Symbol]:
    """All symbols among the operands of a function's instructions."""
    for instruction in function.body.instructions:
        for leaf in leaves(instruction.operands):
            if isinstance(leaf, Symbol):
                yield leaf


def branch_targets(function: Function) -> dict[str, tuple[str, ...]]:
    """Tables of `brx.idx`, by label."""
    return {
        statement.label: statement.names
        for statement in function.body.statements
        if isinstance(statement, Directive)
        and statement.name == "branchtargets"
        and statement.label is not None
    }
