"""The stand-in as a program: a script that a build finds in place of ptxas, or of GCC's assembler.

Where there is bash, the script asks the front of the build first (`toolchain.front`).
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from ptxsw.toolchain import find, front, gcc, large_pages, server_client

_BASH = "/bin/bash"
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ptxsw.shim import {0}; {0}()"
_ROOT = str(Path(__file__).parents[2])

# Bash with -p runs nothing that BASH_ENV names, and takes no functions from the environment.
_HEAD = """\
#!{shell}
# {name} with ptxsw in front. Written by ptxsw; it may be deleted and made again.
"""
_DEFAULT = '[ -n "${variable}" ] || export {variable}={real}\n'
# Names are long, since even a local variable is exported where the build exports one of that name.
_ASK = """\
# `ptxsw exec` has started a process that acts for this one. Where it is not there, is silent, or
# says so, Python does the work here, which takes ten times as long to start as this shell.
ptxsw_ask() {{
    local ptxsw_directory=${{{server}%/*}} ptxsw_front ptxsw_pipe=0 ptxsw_seconds=0
    local ptxsw_first ptxsw_rest ptxsw_status ptxsw_out ptxsw_err ptxsw_words
    [[ ${server} == /* && -O $ptxsw_directory ]] || return
    {{ read -r ptxsw_front <"$ptxsw_directory/{number}"; }} 2>/dev/null || return
    set -C
    until {{ true >"$ptxsw_directory/{claim}$ptxsw_pipe"; }} 2>/dev/null; do
        ((++ptxsw_pipe < {pipes})) || return
    done
    {{ exec {{ptxsw_answer}}<>"$ptxsw_directory/{answers}$ptxsw_pipe"; }} 2>/dev/null || return
    printf '%s\\n' "$$ $ptxsw_pipe $ptxsw_answer $# {entry} ${variable}" \\
        1<>"$ptxsw_directory/{calls}"
    # Bash may report that the time is up although it has just read the letter.
    until read -r -N 1 -t 1 -u "$ptxsw_answer" ptxsw_first || [[ -n $ptxsw_first ]]; do
        [[ -e /proc/$ptxsw_front/exe ]] || return  # a zombie has none
        if ((++ptxsw_seconds == {patience})); then
            {{ true >"$ptxsw_directory/{begun}$ptxsw_pipe"; }} 2>/dev/null && return
        fi
    done
    read -r -u "$ptxsw_answer" ptxsw_rest ptxsw_status ptxsw_out ptxsw_err
    case $ptxsw_first$ptxsw_rest in
    real)
        IFS= read -r -u "$ptxsw_answer" ptxsw_words
        exec {{ptxsw_answer}}<&-
        shift "$ptxsw_status"
        export {tried}="${{{tried}:+${tried}:}}$ptxsw_words" {memory}="${{{memory}-{tunables}}}"
        exec -a {called} "$ptxsw_words" "$@"
        ;;
    done)
        ptxsw_say "$ptxsw_out"
        ptxsw_say "$ptxsw_err" >&2
        ((ptxsw_status < 0)) && kill "$ptxsw_status" $$
        exit "$ptxsw_status"
        ;;
    esac
}}
ptxsw_say() {{
    (($1)) && LC_ALL=C read -r -N "$1" -u "$ptxsw_answer" ptxsw_words && printf %s "$ptxsw_words"
}}
ptxsw_ask "$@"
[[ -n $ptxsw_answer ]] && exec {{ptxsw_answer}}<&-
"""
_START = 'exec {python} -I -S -c {program} {root} "$@"\n'


def data_directory(environ: Mapping[str, str]) -> Path:
    """Where the script and shadow toolkits are kept."""
    base = environ.get("XDG_DATA_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(environ.get("HOME") or _temporary(), ".local", "share")
    return Path(base) / "ptxsw"


def _temporary() -> str:
    import tempfile  # imports more than all else here, and is seldom needed

    return tempfile.gettempdir()


def write_script(path: Path, real: str | None = None, *, for_gcc: bool = False) -> Path:
    """Writes the stand-in for ptxas, or GCC's assembler, as a script. `real` is the program to
    start unless `PTXSW_REAL_PTXAS` (`PTXSW_REAL_NVPTX_AS`) is set.

    The script is complete or not there, also for builds that run meanwhile. Raises OSError.
    """
    text = _text(real, for_gcc, asks=os.access(_BASH, os.X_OK))
    if not path.is_symlink() and path.exists() and path.read_text() == text:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".{path.name}.{os.getpid()}")
    private.write_text(text)
    private.chmod(0o755)
    private.replace(path)
    return path


def _text(real: str | None, for_gcc: bool, *, asks: bool) -> str:
    name, variable, entry = "ptxas", "PTXSW_REAL_PTXAS", "main"
    if for_gcc:
        name, variable, entry = gcc.NAME, gcc.VARIABLE, "nvptx_as"
    text = _HEAD.format(shell=f"{_BASH} -p" if asks else "/bin/sh", name=name)
    if real is not None:
        text += _DEFAULT.format(variable=variable, real=shlex.quote(real))
    if asks:
        text += _ASK.format(
            server=server_client.VARIABLE, number=front.NUMBER, claim=front.CLAIM,
            pipes=front.PIPES, answers=front.ANSWERS, calls=front.CALLS, entry=entry,
            variable=variable, patience=front.PATIENCE, begun=front.BEGUN, tried=find.TRIED,
            memory=large_pages.VARIABLE, tunables=large_pages.TUNABLES,
            called='"$ptxsw_words"' if for_gcc else name,
        )  # fmt: skip
    return text + _START.format(
        python=shlex.quote(sys.executable),
        program=shlex.quote(_PROGRAM.format(entry)),
        root=shlex.quote(_ROOT),
    )
