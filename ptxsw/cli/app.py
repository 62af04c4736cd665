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
ptxsw check kernel.cu build/ lib.a             what costs most, and what to do about it
ptxsw rule bank-conflicts                      what a finding means, and how to mend it
ptxsw analyze kernel.cu                        what every access does across a warp
ptxsw report kernel.ptx --html kernel.html     the same and the rewrites, to explore
ptxsw predict kernel.ptx --gpu h100 --block 256    what bounds it
ptxsw optimize kernel.ptx -o out.ptx --mode force --report report.json
ptxsw verify kernel.ptx out.ptx
ptxsw assemble out.ptx -o out.cubin -arch=sm_80
PTXSW_MODE=force PTXSW_REPORT=reports ptxsw exec -- make -j8""",
    "Exit status": """\
0  done; verify: proved that the texts do the same; doctor: nothing is wrong
1  the answer is no: verify found a difference, doctor a fault, check what --fail-on names
2  bad usage or bad input; what is wrong, and where, is on standard error
3  not decided (verify has no proof and found no difference)
exec ends with the status of its command, the stand-in with that of ptxas.""",
    "Environment": """\
NO_COLOR=1        no colours on a terminal
The rest steers the stand-in for ptxas (exec, env, toolkit, wrappers/ptxas):
PTXSW_MODE        auto: only what pays (default); force: whatever is proved
PTXSW_REWRITES, PTXSW_SCHEME, PTXSW_MAX_DELTA, PTXSW_ASSUME    as the options of optimize
PTXSW_PROJECT     ptxsw.toml for calls outside of its project; exec sets it
PTXSW_SKIP        files and kernels to leave alone, by patterns with commas
PTXSW_REPORT      directory that gets a JSON report for each file
PTXSW_LOG         file that gets a line for each file rewritten, or left alone for a fault
PTXSW_CACHE       directory of answers, or off
PTXSW_TUNED       file of what tune has measured, or off
PTXSW_TIMEOUT     seconds for one file (60)
PTXSW_REAL_PTXAS  the ptxas to use, where it is not found
PTXSW_REAL_NVPTX_AS    the nvptx-none-as of GCC to use, likewise
PTXSW_STRICT=1    fail where it would fall back to the original file
PTXSW_DISABLE=1   do nothing""",
    "Files": """\
~/.cache/ptxsw    answers of the stand-in (XDG_CACHE_HOME is obeyed), and tuned.json
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
        formatter.write("\nptxsw COMMAND --help tells more of each command.\n")

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
