"""A language server: results of `ptxsw check` and `ptxsw analyze` in an editor."""
