"""A process that acts for the scripts of a build, one after the other.

The front (`ptxsw.build_front`) has forked it and hands it the line of each script. For each it
takes over directory, environment, umask and limits of the script's process, does the stand-in's
work (`shim`), and says how the call ends. What it keeps from one call to the next is what was
imported. It ends after a call for which it took limits that it cannot give back, or that failed.
"""

from __future__ import annotations

import os

from ptxsw import shim
from ptxsw.toolchain import front, other_process
from ptxsw.toolchain.process import close_all_but, end_with_parent, write_all
from ptxsw.toolchain.real_assembler import NoInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Final, NoReturn

ANSWERED: Final = 0
"""The status of a process that has answered, and takes no further call."""

DONE: Final = b"."  # it waits for the next call
_LONGEST: Final = 1 << 16  # bytes of a line
_ENTRIES: Final = {"main": shim.as_ptxas, "nvptx_as": shim.as_nvptx_as}
_VARIABLES: Final = {"main": b"PTXSW_REAL_PTXAS", "nvptx_as": b"PTXSW_REAL_NVPTX_AS"}


def serve(channel: socket.socket, directory: str, parent: int) -> NoReturn:
    """Acts for the calls that come through `channel`, a socket of whole messages to the front,
    until there are no more; `directory` has the pipes for the answers. Ends with `parent`."""
    try:
        end_with_parent(parent)
        born = other_process.circumstances()
        while True:
            close_all_but(channel.fileno())
            line = channel.recv(_LONGEST)
            if not line:
                os._exit(ANSWERED)
            call = front.ScriptCall(line)
            answers = os.open(f"{directory}/{front.ANSWERS}{call.pipe}", os.O_RDWR)
            if not other_process.has_open(call.process, call.descriptor, answers):
                os._exit(1)
            said = _answer(call)
            again = other_process.circumstances() == born
            write_all(answers, said)
            if not again:
                os._exit(ANSWERED)
            channel.send(DONE)  # at once: the script ends, and soon what acts for it
            other_process.forget()
    finally:  # never back into the front's code, whatever was raised
        os._exit(1)


def _answer(call: front.ScriptCall) -> bytes:
    """How a call ends. Raises OSError, ValueError where the script has to find that out."""
    process = call.process
    if not other_process.sees_the_same(process):
        return front.SELF
    arguments = other_process.arguments(process, call.count)
    environ = other_process.environment(process)
    if call.real and not environ.get(_VARIABLES[call.entry]):
        environ[_VARIABLES[call.entry]] = call.real
    other_process.take_over(process, other_process.umask(process), environ)
    try:
        ending = _ENTRIES[call.entry](arguments, process)
    except NoInput:
        return front.SELF
    return front.answer(ending, len(arguments))
