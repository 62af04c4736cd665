"""An index that wraps inside a warp: the guard sends such a warp back to its own loads."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.verify import Different, verify
from ptxsw.verify.runs import run
from tests.verify.mutators import WRAP
from tests.verify.programs import original, rewritten
from tests.verify.wrapping import WRAPPING


@pytest.mark.parametrize("name", WRAPPING)
def test_guards_keep_the_result(name: str) -> None:
    first, second = parse(original(name)), parse(rewritten(name))
    entry = first.functions[0].name
    for launch in WRAPPING[name]():
        want, got = run(first, entry, launch), run(second, entry, launch)
        assert want.error is None
        assert got.error is None
        assert want.same(got)


@pytest.mark.parametrize("name", WRAPPING)
def test_without_guards_it_is_wrong(name: str) -> None:
    bare = WRAP.sub(lambda m: f"{m[1]}{(1 << int(m[2])) - 1};", rewritten(name))
    assert bare != rewritten(name)
    verdict = verify(original(name), bare, launches=list(WRAPPING[name]()), seeds=())
    assert isinstance(verdict, Different)
    assert verdict.difference is not None
