"""The command line as a whole: its commands register with `app`. `ptxsw --help` shows them by
purpose, and the rest of a manual page."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

GROUPS = {
    "Look": ("check", "rule", "analyze", "report", "predict", "reproduce", "lsp"),
    "Rewrite": ("optimize", "rewrites", "verify", "run", "tune"),
    "Build": ("exec", "env", "toolkit", "assemble", "doctor", "cache"),
}

SECTIONS = {
    "Examples": """\
ptxsw check kernel.cu build/ lib.a             what costs most, and how to fix it
ptxsw rule bank-conflicts                      what a finding means, and how to fix it
ptxsw analyze kernel.cu                        what every access does across a warp
ptxsw report kernel.ptx --html kernel.html     the same and the rewrites, to explore
ptxsw predict kernel.ptx --gpu h100 --block 256    what limits it
ptxsw optimize kernel.ptx -o out.ptx --mode force --report report.json
ptxsw verify kernel.ptx out.ptx
ptxsw assemble out.ptx -o out.cubin -arch=sm_80
PTXSW_MODE=force PTXSW_REPORT=reports ptxsw exec -- make -j8""",
    "Exit status": """\
0  done; verify: both kernels are proved equal; doctor: nothing is wrong
1  the answer is no: verify found a difference, doctor a fault, check what --fail-on names
2  bad usage or bad input; standard error says what is wrong, and where
3  not decided (verify has no proof and found no difference)
exec exits with the status of its command, the wrapper with that of ptxas.""",
    "Environment": """\
NO_COLOR=1        no colours on a terminal
The other variables control the wrapper around ptxas (exec, env, toolkit, wrappers/ptxas):
PTXSW_MODE        auto: only gains (default); force: whatever is proved
PTXSW_REWRITES, PTXSW_SCHEME, PTXSW_MAX_DELTA, PTXSW_ASSUME    as the options of optimize
PTXSW_PROJECT     ptxsw.toml for calls outside of its project; exec sets it
PTXSW_SKIP        files and kernels to leave alone, as comma-separated patterns
PTXSW_REPORT      directory for a JSON report per file
PTXSW_LOG         file for a line per file rewritten, or left alone because of a fault
PTXSW_CACHE       directory of the cache, or off
PTXSW_TUNED       file with the measurements of tune, or off
PTXSW_TIMEOUT     seconds per file (60)
PTXSW_REAL_PTXAS  the ptxas to use, if ptxsw does not find it
PTXSW_REAL_NVPTX_AS    the same for GCC's nvptx-none-as
PTXSW_STRICT=1    fail instead of falling back to the original file
PTXSW_DISABLE=1   do nothing""",
    "Files": """\
~/.cache/ptxsw    the wrapper's cache (or below XDG_CACHE_HOME), and tuned.json
FILE, OUT         - is standard input or standard output""",
}


class Manual(TyperGroup):
    """The group of all commands. (Click's own types are Any: typer may bring a copy of click.)"""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = [name for name in self.list_commands(ctx) if not self._hidden(ctx, name)]
        grouped = [name for members in GROUPS.values() for name in members]
        rest = tuple(name for name in names if name not in grouped)
        width = max(map(len, names))
        for title, members in [*GROUPS.items(), ("Other", rest)]:
            rows = [
                (name.ljust(width), self._summary(ctx, name)) for name in members if name in names
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        for title, text in SECTIONS.items():
            with formatter.section(title):
                for line in text.splitlines():
                    formatter.write(f"  {line}\n")
        formatter.write("\nptxsw COMMAND --help describes a command.\n")

    def _hidden(self, ctx: Any, name: str) -> bool:
        command = self.get_command(ctx, name)
        return command is None or command.hidden

    def _summary(self, ctx: Any, name: str) -> str:
        """The first sentence of a command's help."""
        command = self.get_command(ctx, name)
        text = command.help or "" if command is not None else ""
        return " ".join(text.partition("\n\n")[0].split())


app = typer.Typer(
    name="ptxsw",
    cls=Manual,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
