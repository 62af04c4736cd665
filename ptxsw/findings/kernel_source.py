"""What the CUDA source of a kernel calls its parameters and arrays, and with which block it is
launched: read as text, and only where it says so literally.

    __global__ void scale(float *x, int n)         param_1 is `n`
    __shared__ float As[TILE][TILE];               padded: `As[TILE][TILE + 1]`
    dim3 block(TILE, TILE); scale<<<grid, block>>>(x, n);      blocks of 32 x 32
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.patterns import pattern
from ptxsw.report.model import SourceEdit

Block = tuple[int, int, int]

_COMMENT = pattern(r"//[^\n]*+|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*+(?:\"|$)", re.DOTALL)
_NUMBER = pattern(
    r"#[ \t]*define[ \t]+(\w+)[ \t]+([^\n\\]+)$"
    r"|\b(?:const|constexpr)\s+(?:static\s+)?(?:unsigned\s+|long\s+|std::)*(?:int|size_t|unsigned)"
    r"\s+(\w+)\s*=\s*([^;,]+);",
    re.MULTILINE,
)
_PARAMETER = pattern(r"\bparam_(\d{1,4})\b")
_NAME_AT_END = pattern(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?$", re.DOTALL)
_LOCAL_NAME = pattern(r"E(\d{1,4})")
_OPENING = pattern(r"(?:\s|#[^\n]*+)*+\{")  # of a body, behind lines for the preprocessor
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_SIZES = {
    "float": 4,
    "int": 4,
    "unsigned": 4,
    "double": 8,
    "half": 2,
    "__half": 2,
    "char": 1,
    "float2": 8,
    "float4": 16,
}
_SIZEOF = pattern(rf"sizeof\s*\(\s*({'|'.join(_SIZES)})\s*\)")
_LONGEST = 100  # characters of an expression that is computed
_LARGEST = 1 << 19  # characters of a file that is read
_LONG = 4_000  # characters of a list of parameters
_LAUNCHES = 32  # of one kernel
_MOST = 1024  # threads of a block; places in a file that are looked at


class Launch(Struct, frozen=True):
    """Where the source launches a kernel, with which block, and with how many bytes of dynamic
    shared memory; None where these are not said literally."""

    block: Block
    line: int
    shared: int | None = None


class KernelSource(Struct, frozen=True):
    """What is known of one kernel's source; nothing where it cannot be read."""

    text: str = ""  # without comments
    parameters: tuple[str, ...] = ()
    file: str = ""
    declared: tuple[str, ...] = ()  # the parameters as they stand there
    body: tuple[int, int] = (0, 0)  # where in the text
    launch: Launch | None = None
    numbers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls, kernel: str, lines: Sequence[str], parameters: int | None = None, file: str = ""
    ) -> KernelSource:
        """The source of a kernel of this PTX name among the lines of a file. The names of its
        parameters count only if there are as many as the PTX has, where that is given, and if no
        other kernel of that name calls them otherwise."""
        whole = "\n".join(lines)
        if len(whole) > _LARGEST:
            return cls()
        text = _COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", whole)
        name = _short(readable(kernel) or kernel)
        numbers = _numbers(text)
        every = list(_definitions(text, name))
        fitting = [one for one in every if parameters in (None, len(one[0]))]
        complete = [one for one in fitting if one[1] != (0, 0)]
        able = complete or fitting
        # Of several that fit (overloads, namespaces) nobody knows which one it is.
        declared, body = (able if len({one[0] for one in able}) == 1 else _NOWHERE)[0]
        names = tuple(found[1] if (found := _NAME_AT_END.search(one)) else "" for one in declared)
        launch = _launch(text, name, numbers)
        return cls(text, names, file, declared, body, launch, numbers)

    def line(self, number: int) -> str:
        """A line of the kernel's body, counted from 1 in the file; empty for any other."""
        lines = self.text.split("\n")
        first = self.text.count("\n", 0, self.body[0]) + 1
        last = self.text.count("\n", 0, self.body[1]) + 1
        return lines[number - 1].strip() if first <= number <= last and self.body[1] else ""

    def element(self, parameter: str) -> str:
        """The type to which a parameter points."""
        declared = self.declared[self.parameters.index(parameter)]
        pointed = re.search(r"(\w+)\s*(?:\*|\w+\s*\[)", declared)
        return pointed[1] if pointed else "float"

    def members(self, declared: str) -> Mapping[str, str]:
        """The members of the struct to which a parameter points, with their types; none where the
        file does not define it."""
        pointed = re.search(r"(\w+)\s*\*", declared)
        if pointed is None:
            return {}
        members = r"\{([^{}]{1,2000})\}"
        inside = re.search(rf"\bstruct\s[^{{}};]*\b{pointed[1]}\s*{members}", self.text)
        inside = inside or re.search(rf"\bstruct\b[^{{}};]*{members}\s*{pointed[1]}\s*;", self.text)
        found: dict[str, str] = {}
        for member in inside[1].split(";") if inside else ():
            first, *others = member.split(",")
            kind, _, name = first.strip().rpartition(" ")
            for each in (name, *others) if kind else ():
                found[each.strip()] = kind.strip()
        return found

    def number(self, name: str) -> int | None:
        """The number that a name stands for in the whole file."""
        return _value(name, self.numbers) if name in self.numbers else None

    def named(self, words: str) -> str:
        """Words with the source's names for parameters."""

        def name(match: re.Match[str]) -> str:
            number = int(match[1])
            known = self.parameters[number] if number < len(self.parameters) else ""
            return known or match[0]

        return _PARAMETER.sub(name, words)

    def variable(self, symbol: str) -> str:
        """The source's name of a variable; that of the PTX where it is not mangled."""
        for match in _LOCAL_NAME.finditer(symbol) if symbol.startswith("_Z") else ():
            name, rest = symbol[match.end() :][: int(match[1])], symbol[match.end() :]
            if len(name) == int(match[1]) and re.fullmatch(r"(?:_\d+)?", rest[len(name) :]):
                return name
        return "" if symbol.startswith("_Z") else symbol

    def padded(self, symbol: str, *, elements: int, row: int) -> SourceEdit | None:
        """The declaration of an array of two dimensions or more, and what it is where its rows, of
        `row` elements now, have some elements more; None where the source has no such one."""
        name = self.variable(symbol)
        array = rf"\b{re.escape(name)}\s*((?:\[[^\[\]]{{1,99}}\]\s*){{2,4}})[;,=]"
        declared = re.search(array, self.text)
        if not name or declared is None:
            return None
        *outer, last = re.findall(r"\[\s*([^\[\]]+?)\s*\]", declared[1])
        if _value(last, self.numbers) not in (None, row):
            return None
        value = _value(last, {})
        longer = f"{last} + {elements}" if value is None else str(value + elements)
        written = f"{name}{''.join(f'[{one}]' for one in outer)}[{longer}]"
        return self._edit(declared.start(), declared[0][:-1].rstrip(), written)

    def restricted(self, parameters: Sequence[str]) -> tuple[SourceEdit, ...]:
        """The declarations of pointers, and what they are with `__restrict__`; none where one of
        them is declared otherwise than `type *name`."""
        edits = []
        for name in parameters:
            declared = self.declared[self.parameters.index(name)] if name in self.parameters else ""
            pointer = re.fullmatch(rf"([^*\[\n]*\*)\s*({re.escape(name)})", declared)
            at = self.text.rfind(declared, 0, self.body[0]) if pointer is not None else -1
            if pointer is None or at < 0:
                return ()
            written = f"{pointer[1]}__restrict__ {pointer[2]}"
            edits.append(self._edit(at, declared, written))
        return tuple(edits)

    def _edit(self, at: int, old: str, new: str) -> SourceEdit:
        return SourceEdit(self.text.count("\n", 0, at) + 1, old, new)


def _numbers(text: str) -> Mapping[str, str]:
    """The names of numbers, with what they stand for: those with one value in the whole file."""
    values: dict[str, set[str]] = {}
    for match in _NUMBER.finditer(text):
        values.setdefault(match[1] or match[3], set()).add((match[2] or match[4]).strip())
    return {name: next(iter(several)) for name, several in values.items() if len(several) == 1}


def _short(name: str) -> str:
    """ "ns::scale<float>" is `scale`."""
    return name.partition("<")[0].rpartition("::")[2]


_NOWHERE: list[tuple[tuple[str, ...], tuple[int, int]]] = [((), (0, 0))]


def _definitions(text: str, name: str) -> Iterator[tuple[tuple[str, ...], tuple[int, int]]]:
    """The parameters of a kernel as they are declared, and where its body is, if one follows.
    Several cases of the preprocessor may define it."""
    for match in islice(re.finditer(rf"\b{re.escape(name)}\s*\(", text), _MOST):
        before = text[max(0, match.start() - _LONG) : match.start()]
        if "__global__" not in before[max(map(before.rfind, ";}{")) + 1 :]:
            continue
        inside = _inside(text, match.end())
        if inside is None:
            return
        opening = _OPENING.match(text, match.end() + len(inside) + 1)
        body = _inside(text, opening.end(), "{}", _LARGEST) if opening else None
        place = (opening.end(), opening.end() + len(body)) if opening and body else (0, 0)
        yield tuple(one.strip() for one in _parts(inside)), place


def _launch(text: str, name: str, numbers: Mapping[str, str]) -> Launch | None:
    """The launch of a kernel, where all launches have one block that the text says literally."""
    launches: list[Launch] = []
    called = rf"\b{re.escape(name)}\s*(?:<[^<>;]{{0,400}}>\s*)?<<<([^;]{{0,400}}?)>>>"
    for match in islice(re.finditer(called, text), _LAUNCHES):
        parts = list(_parts(match[1]))
        block = _block(text[: match.start()], parts[1].strip(), numbers) if parts[1:] else None
        if block is None:
            return None
        line = text.count("\n", 0, match.start()) + 1
        launches.append(Launch(block, line, _dynamic(parts, numbers)))
    if len({launch.block for launch in launches}) != 1:
        return None
    same = len({launch.shared for launch in launches}) == 1
    return launches[0] if same else replace(launches[0], shared=None)


def _dynamic(parts: Sequence[str], numbers: Mapping[str, str]) -> int | None:
    """Bytes of dynamic shared memory in a launch."""
    return _value(_SIZEOF.sub(_size_of, parts[2]), numbers) if parts[2:] else 0


def _size_of(match: re.Match[str]) -> str:
    return str(_SIZES[match[1]])


def _block(before: str, written: str, numbers: Mapping[str, str]) -> Block | None:
    """A block as it stands in a launch: a number, `dim3(…)`, or a name set before."""
    called = re.fullmatch(r"dim3\s*[({](.*)[)}]", written, re.DOTALL)
    if called is not None or not re.fullmatch(r"[A-Za-z_]\w*", written):
        return _shape(called[1] if called else written, numbers)
    shapes = [shape for name, shape in _dim3s(before) if name == written]
    if shapes:
        return _shape(shapes[-1], numbers)
    set_once = re.findall(rf"\bint\s+{written}\s*=\s*([^;,]+);", before)
    return _shape(set_once[0] if len(set_once) == 1 else written, numbers)


def _dim3s(text: str) -> Iterator[tuple[str, str]]:
    """The names and sizes of variables: `dim3 block(16, 16), grid = dim3(64);`."""
    for match in islice(re.finditer(r"\bdim3\s+([^;]{1,400});", text), _MOST):
        for one in _parts(match[1]):
            named = re.fullmatch(r"\s*(\w+)\s*(?:=\s*)?(?:dim3\s*)?[({](.*)[)}]\s*", one, re.DOTALL)
            if named is not None:
                yield named[1], named[2]


def _shape(written: str, numbers: Mapping[str, str]) -> Block | None:
    sizes = [_value(part, numbers) for part in _parts(written)]
    known = [size for size in sizes if size is not None and size > 0]
    if not known or len(known) < len(sizes) or len(known) > 3:
        return None
    x, y, z = (*known, 1, 1)[:3]
    return (x, y, z) if x * y * z <= _MOST else None


def _inside(text: str, start: int, brackets: str = "()", longest: int = _LONG) -> str | None:
    """What stands between brackets, the first of which is before `start`."""
    depth = 1
    for at in range(start, min(len(text), start + longest)):
        depth += (text[at] == brackets[0]) - (text[at] == brackets[1])
        if not depth:
            return text[start:at]
    return None


def _parts(text: str) -> Iterator[str]:
    """What commas outside brackets part."""
    depth, start = 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "([{<") - (sign in ")]}>")
        if sign == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def _value(written: str, numbers: Mapping[str, str], depth: int = 8) -> int | None:
    """The value of an expression of numbers and names of numbers."""
    try:
        tree = ast.parse(written.strip()[:_LONGEST], mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return _computed(tree, numbers, depth)


def _computed(node: ast.expr, numbers: Mapping[str, str], depth: int) -> int | None:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if name in numbers and depth:
            return _value(numbers[name], numbers, depth - 1)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            a, b = _computed(left, numbers, depth), _computed(right, numbers, depth)
            divides = isinstance(sign, (ast.Div, ast.FloorDiv))
            if a is None or b is None or (divides and not b):
                return None
            value = _OPERATORS[type(sign)](a, b)
            return value if abs(value) < 1 << 31 else None
    return None
