"""`ptxsw lsp`: a language server for editors."""

from __future__ import annotations

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError


@app.command()
def lsp() -> None:
    """Serve an editor over standard input and output (Language Server Protocol).

    When a .cu or .ptx file is opened or saved, the editor shows what `ptxsw check` finds in it. The
    address, stride and sectors of an access are shown where the pointer rests on its line. Quick
    fixes pad a tile, declare pointers `__restrict__`, or silence a finding by a comment. It takes
    pip install 'ptxsw[lsp]'. An editor starts it; there is nothing to type.

    \b
      ptxsw lsp
    """
    try:
        from ptxsw.editor.server import serve
    except ModuleNotFoundError as error:
        raise CommandError("the language server needs pygls: pip install 'ptxsw[lsp]'") from error
    serve()
