"""Barriers without which nothing changes, and such as are needed."""

from __future__ import annotations

import pytest

from ptxsw.correctness import redundant_barrier
from ptxsw.correctness.deciding import checked
from ptxsw.correctness.fault_rules import RULES
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof, VerdictKind
from ptxsw.emulator.budget import Budget
from ptxsw.parser import parse
from tests.correctness.test_data_race import HEAD, NEIGHBOUR, OWN, loop

LINES = HEAD.count("\n")


def subject(body: str) -> Subject:
    module = parse(HEAD + body + "\nret;\n}\n")
    return Subject(module, module.kernels[0], Budget(10.0), (64, 1, 1))


def proof(body: str) -> tuple[list[int], Proof]:
    """The lines of `body` with barriers that nothing depends on, from 1."""
    asked = subject(body)
    with asked.budget:
        said = redundant_barrier.prove(asked)
    return [asked.line(fault.index) - LINES for fault in said.faults], said


BAR = "bar.sync 0;"
REDUNDANT = {
    "twice": ([OWN, BAR, BAR, NEIGHBOUR], [2, 3]),
    "before anything": ([BAR, OWN, BAR, NEIGHBOUR], [1]),
    "after everything": ([OWN, BAR, NEIGHBOUR, BAR], [4]),
    "sums that nobody reads": (
        ["red.shared.add.u32 [tile], 1;", BAR, "red.shared.add.u32 [tile], %r1;"], [2]),
    "sums that somebody reads": (
        ["red.shared.add.u32 [tile], 1;", BAR, "atom.shared.add.u32 %r20, [tile], 1;",
         "st.global.u32 [%rd4], %r20;"], []),
    "least and sum": (
        ["red.shared.add.u32 [tile], 1;", BAR, "red.shared.min.u32 [tile], %r1;"], []),
    "the votes of all": (["bar.red.popc.u32 %r20, 0, %p1;"], []),
    "all that is needed": ([OWN, BAR, NEIGHBOUR, BAR, OWN], []),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUNDANT)
def test_which_are_redundant(name: str) -> None:
    lines, expected = REDUNDANT[name]
    found, said = proof("\n".join(lines))
    assert found == expected and not said.unknown


def test_both_ends_of_a_loop() -> None:
    body = loop("\n".join([BAR, OWN, BAR, NEIGHBOUR, BAR]))
    found, _ = proof(body)
    assert found == [2, 6]
    assert proof(loop("\n".join([OWN, BAR, NEIGHBOUR, BAR])))[0] == []


def test_copies_of_one_barrier_go_together() -> None:
    """As of a loop that was unrolled: behind its last round nothing follows, but in its source
    the barrier cannot be taken out for that."""
    copy = ".loc 1 7 9\n" + BAR
    needed = [OWN, ".loc 1 6 9", BAR, NEIGHBOUR, copy]
    assert proof("\n".join([*needed, ".loc 1 5 9", OWN, copy]))[0] == []
    found, _ = proof("\n".join([*needed, ".loc 1 8 9", BAR]))
    assert found == [6, 8]


UNKNOWN = {
    "a race": ("st.shared.u32 [tile], %r1;\nbar.sync 0;", "data races"),
    "a fence": (OWN + "\nbar.sync 0;\nmembar.gl;", "membar.gl at line"),
    "a flag": ("bar.sync 0;\n@%p1 st.release.gpu.global.u32 [%rd1], 1;", "may depend on barriers"),
    "a copy": (
        "cp.async.ca.shared.global [%r6], [%rd5], 4;\ncp.async.wait_all;\nbar.sync 0;",
        "may depend on barriers",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_nothing_is_said(name: str) -> None:
    body, reason = UNKNOWN[name]
    found, said = proof(body)
    assert not found and reason in said.unknown


NEEDED = {
    "a copy that others read": (
        f"cp.async.ca.shared.global [%r6], [%rd5], 4;\ncp.async.wait_all;\n{BAR}\n{NEIGHBOUR}"
    ),
    "beside a fence": f"{OWN}\n{BAR}\nmembar.gl;\n{NEIGHBOUR}",
    "beside a race": f"st.shared.u32 [tile+1024], %r1;\n{OWN}\n{BAR}\n{NEIGHBOUR}",
    "of data": (
        f"ld.global.u32 %r20, [%rd5];\nsetp.gt.u32 %p8, %r20, 7;\n@%p8 {OWN}\n{BAR}\n{NEIGHBOUR}"
    ),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_needed_whatever_else_is_unknown(name: str) -> None:
    found, said = proof(NEEDED[name])
    assert not (found or said.unknown or said.faults) and said.needs == {"divergent-barrier"}


def test_a_note_stands_on_what_it_leans_on() -> None:
    """Arrays are apart while nobody leaves them; a race takes the note back."""
    rules = [rule for rule in RULES if rule.name in ("redundant-barrier", "data-race")]
    told = checked(subject(f"{OWN}\n{BAR}\n{BAR}\n{NEIGHBOUR}"), rules)
    assert told.verdicts["redundant-barrier"].kind is VerdictKind.FOUND
    assert [fault.level for fault in told.faults] == ["note", "note"]
    raced = checked(subject(f"{BAR}\nst.shared.u32 [tile], %r1;"), rules)
    assert raced.verdicts["redundant-barrier"].kind is VerdictKind.UNKNOWN
    assert all(fault.rule == "data-race" for fault in raced.faults)


def test_a_barrier_of_a_function_that_is_called_twice() -> None:
    """The second call has no need of it, but the text has it once."""
    waits = ".func waits()\n{\nbar.sync 0;\nret;\n}\n"
    for body, lines in (([OWN, "{0}", NEIGHBOUR, "{0}"], 0), (["{0}", "{0}"], 1)):
        text = "\n".join(body).format("call waits;")
        module = parse(
            HEAD.replace(".visible .entry", waits + ".visible .entry") + text + "\nret;\n}\n"
        )
        asked = Subject(module, module.kernels[0], Budget(10.0), (64, 1, 1))
        with asked.budget:
            said = redundant_barrier.prove(asked)
        assert len(said.faults) == lines
