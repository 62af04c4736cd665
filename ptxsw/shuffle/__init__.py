"""The paper's rewrite: which loads may become shuffles, under which tests, in which groups."""
