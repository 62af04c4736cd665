"""Blocks, loops and dominators of small bodies."""

from __future__ import annotations

from ptxsw.flow.cfg import Cfg, build
from ptxsw.parser import parse


def cfg_of(body: str) -> Cfg:
    module = parse(
        ".version 8.0\n.target sm_80\n.entry k()\n"
        f"{{\n.reg .pred %p<4>;\n.reg .b32 %r<4>;\n{body}}}\n"
    )
    return build(module.functions[0].body)


def test_blocks_end_at_branches_and_labels() -> None:
    cfg = cfg_of("mov.u32 %r1, 0;\n@%p1 bra B;\nA:\nmov.u32 %r1, 1;\nB:\nret;\n")
    assert [(b.start, b.end, b.labels, b.successors) for b in cfg.blocks] == [
        (0, 2, (), (2, 1)),
        (2, 3, ("A",), (2,)),
        (3, 4, ("B",), ()),
    ]
    assert cfg.predecessors[2] == (0, 1)
    assert (cfg.idom[2], cfg.ipdom[0]) == (0, 2)


def test_guarded_exits_fall_through() -> None:
    cfg = cfg_of("@%p1 ret;\n@%p2 exit;\nmov.u32 %r1, 0;\n")
    assert [b.successors for b in cfg.blocks] == [(1,), (2,), ()]


def test_nested_loops() -> None:
    cfg = cfg_of("A:\nmov.u32 %r1, 0;\nB:\n@%p1 bra B;\nC:\n@%p2 bra C;\n@%p3 bra A;\nret;\n")
    assert {h: (loop.parent, loop.depth) for h, loop in cfg.loops.items()} == {
        1: (0, 2),
        2: (0, 2),
        0: (None, 1),
    }
    assert list(cfg.loops)[-1] == 0  # inner loops come first
    assert cfg.loops_around(1) == (1, 0)
    assert cfg.loops[0].latches == (3,)
    assert cfg.loops[0].exits == ((3, 4),)
    assert not cfg.irreducible


def test_irreducible_flow() -> None:
    cfg = cfg_of("@%p1 bra B;\nA:\nmov.u32 %r1, 0;\nB:\n@%p2 bra A;\nret;\n")
    assert len(cfg.irreducible) == 1
    assert not cfg.loops


def test_labels_at_the_end_and_unreachable_code() -> None:
    cfg = cfg_of("bra END;\nmov.u32 %r1, 0;\nEND:\n")
    assert cfg.order == (0, 2)
    assert (cfg.blocks[2].start, cfg.blocks[2].end) == (2, 2)


def test_names_are_the_blocks_own() -> None:
    cfg = cfg_of("{\nL:\nmov.u32 %r1, 0;\n}\n{\nL:\nmov.u32 %r1, 1;\n}\nret;\n")
    assert len({cfg.name(b.number) for b in cfg.blocks}) == len(cfg.blocks)


def test_an_indirect_branch_goes_to_its_table() -> None:
    cfg = cfg_of("T: .branchtargets A, C;\nbrx.idx %r1, T;\nA:\nret;\nB:\nret;\nC:\nret;\n")
    names = {cfg.name(s) for s in cfg.blocks[0].successors}
    assert names == {"A", "C"}
