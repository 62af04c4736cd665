"""C++ names of kernels: `_ZN3app6jacobiIfLi4EEEvPKT_PS1_` is `app::jacobi<float, 4>`.

The C++ run-time library takes the names apart (`__cxa_demangle` of the Itanium C++ ABI); Z3 needs
that library, so it is there. It is loaded when the first mangled name is met. Without it, names
stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from ptxsw.ptx.errors import InvalidRequest
from ptxsw.ptx.ir import Function, Module
from ptxsw.ptx.patterns import pattern

_MOST_NAMES = 8  # kernels named in an error
_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib")
_TAG = pattern(r"\[abi:\w*\]")


@cache
def demangled(name: str) -> str:
    """The whole declaration behind a mangled name, parameters and all; any other name as it is."""
    if not name.startswith("_Z"):
        return name
    take_apart = _demangler()
    return (take_apart(name) if take_apart is not None else None) or name


def readable(name: str) -> str | None:
    """The C++ name behind a mangled one, without parameters, result and ABI tags."""
    text = demangled(name)
    if text == name:
        return None
    declared = _declared(text)
    return declared[_after_last_space(declared) :]


def matches(name: str, wanted: str) -> bool:
    """Is the kernel `name` meant by `wanted`: as it stands in the PTX, or as C++, with or without
    parameters, template arguments and namespaces?"""
    if wanted == name:
        return True
    short = readable(name)
    if short is None:
        return False
    bare = _without_arguments(short)
    whole = demangled(name)
    spoken = {whole, _declared(whole), short, bare, short[_after_scopes(short) :]}
    spoken.add(bare.rpartition("::")[2])
    return re.sub(r"\s", "", wanted) in {re.sub(r"\s", "", text) for text in spoken}


def chosen(module: Module, wanted: str | None) -> tuple[Function, ...]:
    """The kernels that a name means, all for None. Raises ValueError, which names those that there
    are, where it means none."""
    kernels = module.kernels
    if wanted is None:
        return kernels
    meant = tuple(kernel for kernel in kernels if matches(kernel.name, wanted))
    if meant:
        return meant
    names = [readable(kernel.name) or kernel.name for kernel in kernels]
    more = ", …" if len(names) > _MOST_NAMES else ""
    there = f"; available: {', '.join(names[:_MOST_NAMES])}{more}" if names else ""
    raise InvalidRequest(f"{module.source.name}: no kernel {wanted!r} with a body{there}")


def without(kernels: tuple[Function, ...], skipped: tuple[str, ...]) -> tuple[Function, ...]:
    """The kernels whose PTX or C++ name matches none of these patterns (as of a shell). A C++ name
    is tried with and without its parameters."""
    if not skipped:
        return kernels
    from fnmatch import fnmatchcase

    def names(kernel: Function) -> tuple[str, ...]:
        plain = readable(kernel.name)
        return (kernel.name,) if plain is None else (kernel.name, plain, plain.partition("(")[0])

    return tuple(
        kernel for kernel in kernels
        if not any(fnmatchcase(name, word) for name in names(kernel) for word in skipped)
    )  # fmt: skip


def _declared(text: str) -> str:
    """A declaration without its parameters and ABI tags."""
    text = _TAG.sub("", text)
    return text[: _opening(text)] if text.endswith(")") else text


@cache
def _demangler() -> Callable[[str], str | None] | None:
    import ctypes

    for library in _LIBRARIES:
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        break
    else:
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    process = ctypes.CDLL(None)
    process.free.argtypes = [ctypes.c_void_p]

    def take_apart(name: str) -> str | None:
        """None where the library knows no such name."""
        plain = function(name.encode(), None, None, None)
        if not plain:
            return None
        try:
            return ctypes.string_at(plain).decode(errors="replace")
        finally:
            process.free(plain)

    return take_apart


def _opening(text: str) -> int:
    """Where the parenthesis opens that the last character closes."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return at
    return len(text)


def _depths(text: str) -> list[int]:
    """For each character, how many brackets are open around it."""
    depth, depths = 0, []
    for at, character in enumerate(text):
        arrow = character == ">" and text[at - 1 : at] == "-"
        depth -= character in ")}" or (character == ">" and not arrow)
        depths.append(depth)
        depth += character in "<({"
    return depths


def _after_last_space(text: str) -> int:
    """Where the name begins behind the type of the result."""
    depths = _depths(text)
    spaces = [at for at, character in enumerate(text) if character == " " and not depths[at]]
    return spaces[-1] + 1 if spaces else 0


def _after_scopes(text: str) -> int:
    """Where the last part of `a::b::c<d::e>` begins."""
    depths = _depths(text)
    return max(
        (at + 2 for at in range(len(text)) if text.startswith("::", at) and not depths[at]),
        default=0,
    )


def _without_arguments(text: str) -> str:
    """`a::b<c>` as `a::b`."""
    if not text.endswith(">"):
        return text
    depths = _depths(text)
    return text[: max(at for at, c in enumerate(text) if c == "<" and not depths[at])]
