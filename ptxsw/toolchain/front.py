"""What the stand-in's script and the front of a build (`ptxsw.build_front`) say to each other.

They share a directory of named pipes, in which the front has written its own number. A script
claims one of the pipes for answers by making a file beside it, opens it, and writes a line into the
pipe for calls. A shell can do all of that by itself.

    4711 0 10 5 main /usr/local/cuda/bin/ptxas      process, pipe, its descriptor there, how many
                                                    arguments, the function of `ptxsw.shim`, the
                                                    assembler to start where no variable names one

Who begins makes a second file: the front, or the script itself where the front does not come. So
they never both begin. When the front knows how the call ends, it answers with a line, behind which
stands what ptxas said:

    real 1                                          become the program of the next line, without
    /usr/local/cuda/bin/ptxas                       the first argument
    done 0 0 120                                    exit with 0, after 0 bytes of output and 120 of
                                                    errors; a negative status is a signal
    self                                            start Python, and let it do the work
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from ptxsw.toolchain.real_assembler import Ending

NUMBER: Final = "process"
CALLS: Final = "calls"
ANSWERS: Final = "answers"  # with a number behind it
CLAIM: Final = "taken"  # the same
BEGUN: Final = "begun"
PIPES: Final = 32
"""Calls that are served at once; who comes then starts Python."""

PATIENCE: Final = 5  # seconds in which the front begins; else it is quicker without
SELF: Final = b"self\n"


class ScriptCall:
    """A line of a script."""

    def __init__(self, line: bytes) -> None:
        """Raises ValueError."""
        process, pipe, descriptor, count, entry, real = line.split(b" ", 5)
        self.process: Final = int(process)
        self.pipe: Final = int(pipe)
        self.descriptor: Final = int(descriptor)
        self.count: Final = int(count)
        self.entry: Final = entry.decode()
        self.real: Final = real  # empty where there is none
        if not 0 <= self.pipe < PIPES:
            raise ValueError(f"pipe {self.pipe}")


def answer(ending: Ending, count: int) -> bytes:
    """How a call with `count` arguments ends."""
    done, target = ending.done, ending.target
    if done is not None:
        if b"\0" in done.stdout + done.stderr:  # a shell cannot hold it
            return SELF
        head = b"done %d %d %d\n" % (done.status, len(done.stdout), len(done.stderr))
        return head + done.stdout + done.stderr
    assert target is not None
    path = os.fsencode(target.path)
    if b"\n" in path:
        return SELF
    return b"real %d\n%s\n" % (count - len(target.arguments), path)
