"""Kernels before and after a rewrite, as small texts."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache

from ptxsw.changes.claim import Claim
from ptxsw.codegen.excerpt import Excerpts
from ptxsw.driver.passes import Passes
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, validate
from tests.heads import head

KERNEL = (
    head()
    + """.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
{{
	.reg .pred %p<4>;
	.reg .b32 %r<20>;
	.reg .f32 %f<20>;
	.reg .b64 %rd<30>;
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	ld.param.u32 %r1, [n];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd3, %r2, 8;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
{body}
	ret;
}}
"""
)


def kernel(body: str) -> str:
    """A kernel of some lines: `%rd4` and `%rd5` are this thread's 8 bytes of `in` and `out`."""
    return KERNEL.format(body="\n".join(f"\t{line}" for line in lines(body)))


def lines(text: str) -> list[str]:
    """The lines of a text without blanks around them and without empty ones."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def rewritten(rewrite: str, text: str, **options: object) -> Result:
    """What one rewrite alone makes of a text; many mutants are made of the same."""
    ptxas = os.environ.get("PTXSW_REAL_PTXAS")
    return _rewritten(ptxas, rewrite, text, tuple(sorted(options.items())))


@lru_cache(maxsize=64)
def _rewritten(
    ptxas: str | None, rewrite: str, text: str, options: tuple[tuple[str, object], ...]
) -> Result:
    chosen = Options(mode="force", rewrites=(rewrite,), **dict(options))  # type: ignore[arg-type]
    return optimize(text, chosen)


def new_lines(before: str, result: Result) -> list[str]:
    """The lines of a result that the text did not have, declarations left out; blanks are one."""
    old = lines(before)
    found = [line for line in lines(result.text) if line not in old]
    return [re.sub(r"\s+", " ", line) for line in found if not line.startswith(".reg")]


def reasons(result: Result) -> list[str]:
    """Why what stays was left alone."""
    return [r.reason for each in result.report.kernels for r in each.refusals or ()]


def claims_of(rewrite: str, text: str) -> list[Claim]:
    """What a rewrite alone claims of its own registers, in the only kernel of a text."""
    module = parse(text)
    passes = Passes(Options(mode="force", rewrites=(rewrite,)), "sm_80")
    (attempt,) = passes.run(Excerpts(module).of(module.kernels[0])).attempts
    return [claim for change in attempt.changes for claim in change.claims]


def outcome(before: str, after: str, claims: Sequence[Claim] = ()) -> Outcome:
    """What `validate` says of the first kernels of two texts, whatever wrote them."""
    old, new = parse(before), parse(after)
    return validate((old, old.kernels[0]), (new, new.kernels[0]), claims=claims)


def is_proved(before: str, after: str, claims: Sequence[Claim] = ()) -> bool:
    """Are the first kernels of two texts proved equal?"""
    return isinstance(outcome(before, after, claims), Proved)
