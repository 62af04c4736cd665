"""Tasks that ask questions on their way, of which those of several tasks are answered together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class _Failed(Struct, frozen=True):
    """What was raised in place of an answer."""

    error: Exception


def batched(
    tasks: Iterable[tuple[int, Generator[Question, Answer, Result]]],
    answer: Callable[[Sequence[Question]], Sequence[Answer]],
    most: int,
) -> Iterator[tuple[int, Result]]:
    """The results of numbered tasks, each as soon as it is there. A task yields its questions and
    is sent their answers. Up to `most` tasks wait while others are begun; then all of them are
    answered at once. What answering raises is raised in the task that asked."""
    waiting: list[tuple[int, Generator[Question, Answer, Result], Question]] = []

    def answered() -> Iterator[tuple[int, Result]]:
        asked = waiting[:]
        waiting.clear()
        replies = _replies([question for _, _, question in asked], answer)
        for (number, task, _), reply in zip(asked, replies, strict=True):
            try:
                more = task.throw(reply.error) if isinstance(reply, _Failed) else task.send(reply)
                waiting.append((number, task, more))
            except StopIteration as end:
                yield number, end.value

    for number, task in tasks:
        try:
            waiting.append((number, task, next(task)))
        except StopIteration as end:
            yield number, end.value
        if len(waiting) >= most:
            yield from answered()
    while waiting:
        yield from answered()


def _replies(
    questions: Sequence[Question], answer: Callable[[Sequence[Question]], Sequence[Answer]]
) -> Sequence[Answer | _Failed]:
    """The answers, which may be exceptions that nobody raised. Where answering fails, each question
    is answered by itself, so that only those that are at fault get no answer."""
    try:
        return answer(questions)
    except Exception as error:
        if len(questions) == 1:
            return [_Failed(error)]
        return [reply for one in questions for reply in _replies([one], answer)]


def alone(
    task: Generator[Question, Answer, Result],
    answer: Callable[[Sequence[Question]], Sequence[Answer]],
) -> Result:
    """The result of one task."""
    ((_, result),) = batched([(0, task)], answer, 1)
    return result
