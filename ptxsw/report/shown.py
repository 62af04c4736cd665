"""A report as the Python interface hands it out: contents that can show themselves."""

from __future__ import annotations

from typing import Any

from ptxsw.report.model import Contents


class Report(Contents, frozen=True):
    """One PTX file: what was found in it, and done to it."""

    def __str__(self) -> str:
        """What `ptxsw analyze` prints."""
        from ptxsw.report.text import analysis_text
        from ptxsw.report.weights import ordered

        return analysis_text(ordered(self))

    def _repr_html_(self) -> str:
        """The same as tables, for a notebook."""
        from ptxsw.report.notebook import report_html

        return report_html(self)

    def to_dataframe(self) -> Any:
        """A row for each access, in pandas if it is installed, else in polars. Raises ImportError
        where neither is."""
        from ptxsw.report.notebook import dataframe

        return dataframe(self)
