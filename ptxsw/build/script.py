"""The wrapper as a program: a script that a build finds in place of ptxas or GCC's assembler.

Where ptxsw cannot run (its Python is gone, another user may not start it, its files cannot be
read), the script becomes the real program: the one that it names, the one that nvcc gave, or the
next on `PATH`.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from ptxsw.build import gcc
from ptxsw.toolchain.cache import key

_ROOT = str(Path(__file__).parents[2])

_PROGRAM = """\
import sys
root, script, *arguments = sys.argv[1:]
try:
    sys.path.insert(0, root)
    from ptxsw.build.{module} import {entry}
except Exception:
    import os
    os.environ["PTXSW_PLAIN"] = "1"
    os.execv("/bin/sh", ["sh", script, *arguments])
sys.argv[1:] = arguments
{entry}()"""

_SCRIPT = """\
#!/bin/sh
# {name} with ptxsw in front. Written by ptxsw; it may be deleted and made again.
{default}python={python}
if [ -z "${{PTXSW_PLAIN-}}" ] && [ -x "$python" ]; then
    exec "$python" -I -S -c {program} {root} "$0" "$@"
fi
unset PTXSW_PLAIN
case ${{1-}} in {name} | */{name})
    real=$1
    shift ;;
*) real={name} ;;
esac
real=${{{variable}:-$real}}
case $real in */*) exec "$real" "$@" ;; esac
IFS=:
for directory in $PATH:${{CUDA_HOME:-/usr/local/cuda}}/bin; do
    program=${{directory:-.}}/$real
    if [ -f "$program" ] && [ -x "$program" ] && ! head -c 2048 "$program" | grep -q ptxsw; then
        exec "$program" "$@"
    fi
done
echo "ptxsw: it cannot run here, and no other {name} is on PATH; set {variable} to its path" >&2
exit 127
"""
_CALLER = """\
words=$(tr '\\0' '\\n' <"/proc/$PPID/cmdline" 2>/dev/null)
toolkit=$(echo "$words" | sed -n 's/^--cuda-path=//p' | tail -n 1)
if [ -z "${PTXSW_REAL_PTXAS-}" ] && [ -x "$toolkit/bin/ptxas" ] &&
    ! head -c 2048 "$toolkit/bin/ptxas" | grep -q ptxsw; then
    export PTXSW_REAL_PTXAS="$toolkit/bin/ptxas"
fi
"""
"""clang does not say which toolkit's ptxas it would have started: its command line may."""

EXPANDED = frozenset('$`"\\')  # in double quotes, too, in which nvcc names the script
_DEFAULT = '[ -n "${{{variable}-}}" ] || export {variable}={real}\n'


def program(module: str, entry: str) -> str:
    """What Python does for a script: acts as the wrapper, or, if it cannot, starts the script again
    with `PTXSW_PLAIN` set. Its arguments are the directory of ptxsw, the script, and the script's
    arguments."""
    return _PROGRAM.format(module=module, entry=entry)


def data_directory(environ: Mapping[str, str]) -> Path:
    """Where scripts and shadow toolkits belong."""
    base = environ.get("XDG_DATA_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(environ.get("HOME") or _temporary(), ".local", "share")
    return Path(base) / "ptxsw"


def usable_directory(environ: Mapping[str, str]) -> Path:
    """The directory where they are kept: where they belong, or, if nothing can be written there, or
    a shell would not take its name as it stands in double quotes, one of this user's among the
    temporary files. Raises OSError where that cannot be, either."""
    wanted = data_directory(environ)
    if EXPANDED.isdisjoint(str(wanted)):
        try:
            wanted.mkdir(parents=True, exist_ok=True)
            if os.access(wanted, os.W_OK):
                return wanted
        except OSError:
            pass
    fallback = Path(_temporary(), f"ptxsw-{os.geteuid()}")
    fallback.mkdir(mode=0o700, exist_ok=True)
    status = fallback.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022 or fallback.is_symlink():
        raise PermissionError(1, "belongs to another user, or others can write to it", fallback)
    return fallback


def script_for(environ: Mapping[str, str], tool: str, name: str, real: str) -> Path:
    """Where the script for a tool is that starts `real`: builds at one time that find other real
    programs have scripts of their own. Raises OSError."""
    return usable_directory(environ) / tool / key(os.fsencode(real))[:16] / name


def _temporary() -> str:
    import tempfile  # imports more than all else here, and is seldom needed

    return tempfile.gettempdir()


def write_script(
    path: Path, real: str | None = None, *, for_gcc: bool = False, for_clang: bool = False
) -> Path:
    """Writes the wrapper of ptxas, or of GCC's assembler, as a script. `real` is the program to
    start unless `PTXSW_REAL_PTXAS` (`PTXSW_REAL_NVPTX_AS`) is set, or, `for_clang`, unless clang
    was given a toolkit.

    Raises OSError.
    """
    return write_program(path, _text(real, for_gcc, for_clang))


def write_program(path: Path, text: str) -> Path:
    """Writes a script, which is complete or not there, also for builds that run meanwhile. Raises
    OSError."""
    content = os.fsencode(text)  # paths may hold any bytes
    if not path.is_symlink() and path.exists() and path.read_bytes() == content:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".{path.name}.{os.getpid()}")
    private.write_bytes(content)
    private.chmod(0o755)
    private.replace(path)
    return path


def _text(real: str | None, for_gcc: bool, for_clang: bool) -> str:
    name, variable, entry = "ptxas", "PTXSW_REAL_PTXAS", "main"
    if for_gcc:
        name, variable, entry = gcc.NAME, gcc.VARIABLE, "nvptx_as"
    default = "" if real is None else _DEFAULT.format(variable=variable, real=shlex.quote(real))
    return _SCRIPT.format(
        name=name, variable=variable, default=(_CALLER if for_clang else "") + default,
        python=shlex.quote(sys.executable), root=shlex.quote(_ROOT),
        program=shlex.quote(program("shim", entry)),
    )  # fmt: skip
