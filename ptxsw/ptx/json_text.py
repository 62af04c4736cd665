"""Reading JSON that somebody else wrote."""

from __future__ import annotations

from typing import Any


def parsed(text: str | bytes) -> Any:
    """The value of a text. Raises ValueError with a sentence, whatever is wrong with it."""
    import json  # most runs read none

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"not JSON: {where}: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON: it is not UTF-8") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None
