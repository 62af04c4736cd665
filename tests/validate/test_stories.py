"""Right rewrites are proved from the texts alone, and each of their wrong twins is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME as DEFAULT
from ptxsw.parser import parse
from ptxsw.ptx.errors import Unsupported
from ptxsw.simt import RunError, launch
from ptxsw.validate import Outcome, Proved, validate
from tests.parsed import parsed
from tests.validate.stories import STORIES, Story, Twin

TWINS = [(story, twin) for story in STORIES for twin in story.twins]


def judged(story: Story, after: str) -> Outcome:
    first, second = parse(story.texts()[0]), parse(after)
    return validate(
        (first, first.functions[0]),
        (second, second.functions[0]),
        claims=story.claims,
        assume=DEFAULT | set(story.assume),
    )


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.name)
def test_what_is_right_is_proved(story: Story) -> None:
    outcome = judged(story, story.texts()[1])
    assert isinstance(outcome, Proved), str(outcome)
    assert set(outcome.assumptions) == set(story.assumptions)


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.name)
def test_a_text_equals_itself(story: Story) -> None:
    module = parse(story.texts()[0])
    kernel = module, module.functions[0]
    assert validate(kernel, kernel) == Proved()


@pytest.mark.parametrize(("story", "twin"), TWINS, ids=[f"{s.name}: {t.name}" for s, t in TWINS])
def test_what_is_wrong_is_refused(story: Story, twin: Twin) -> None:
    assert not isinstance(judged(story, story.twin(twin)), Proved)


def test_there_are_a_hundred_twins() -> None:
    assert len(TWINS) >= 100


# ---------------------------------------------------------------- the twins are no straw men

BASE = 1 << 26
SIZE = 4096
# Where the arrays begin, n, which numbers memory holds, and how many threads there are.
LAUNCHES = (
    (0, 2048, 5, "any", 64), (0, 2048, 1, "small", 64), (0, 2048, 0, "small", 64),
    (0, 0, 3, "any", 64), (0, 8, 3, "any", 64), (0, 4, 2, "small", 64), (16, 0, 7, "small", 64),
    (0, 2048, 1 << 31, "few", 64), (0, 2048, 5, "zero", 64), (0, 1 << 30, 0, "small", 64),
    (8, 2056, 4, "any", 64), (1 << 30, 2048, 0, "small", 64), (0, 2, 3, "any", 64),
    (4, 2048, 3, "any", 64), (0, 2048, 5, "five", 64), (0, 0, 3, "any", 1),
)  # fmt: skip


def memory(kind: str) -> np.ndarray:
    numbers = np.random.default_rng(7).integers(1, 1 << 32, SIZE // 4, dtype=np.uint32)
    if kind == "small":
        numbers[1::2] = 0
    elif kind == "few":
        numbers &= 3
        numbers[1::2] = 0
    elif kind == "five":
        numbers[:512:8] = 5
        numbers[1::2] = 0
        numbers[2::4] = 1
    elif kind == "zero":
        numbers[2::4] = numbers[3::4] = 0
    return numbers


def done(text: str, at: tuple[int, int, int, str, int], seed: int | None) -> bytes | None:
    """What memory holds after a launch; None where it fails."""
    a, b, n, kind, threads = at
    try:
        result = launch(
            parsed(text), None, 1, threads, [BASE + a, BASE + b, n], memory={BASE: memory(kind)},
            seed=seed, races=True, limit=200_000,
        )  # fmt: skip
    except (RunError, Unsupported):
        return None
    return result.memory[BASE].tobytes()


def shown_different(story: Story, twin: Twin) -> bool:
    before, after = story.texts()[0], story.twin(twin)
    for at in LAUNCHES:
        if at[2] > 1 << 20 and "LOOP" in before:
            continue
        for seed in (None, 1, 2):
            wanted = done(before, at, seed)
            if wanted is not None and done(after, at, seed) != wanted:
                return True
    return False


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.name)
def test_the_interpreter_sees_the_difference(story: Story) -> None:
    """Of all twins but those that say it does not: other roundings, scopes, what only races
    see."""
    twins = [t for t in story.twins if not t.silent]
    assert [t.name for t in twins if not shown_different(story, t)] == []


def test_few_twins_are_silent() -> None:
    assert sum(twin.silent for _, twin in TWINS) <= len(TWINS) // 8
