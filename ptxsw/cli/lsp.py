"""`ptxsw lsp`: a language server for editors."""

from __future__ import annotations

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError


@app.command()
def lsp() -> None:
    """Serve an editor over standard input and output (Language Server Protocol).

    When you open or save a .cu or .ptx file, the editor shows the findings of `ptxsw check`. If the
    pointer rests on a memory access, it shows the address, stride and sectors. Quick fixes pad a
    tile, declare pointers `__restrict__`, or silence a finding by a comment. Editors start this
    command; you need not run it yourself. It needs pip install 'ptxsw[lsp]'.

    \b
      ptxsw lsp
    """
    try:
        from ptxsw.editor.server import serve
    except ModuleNotFoundError as error:
        raise CommandError("the language server needs pygls: pip install 'ptxsw[lsp]'") from error
    serve()
