"""A language server: what `ptxsw check` and `ptxsw analyze` say of a file, in an editor."""
