"""A line as a JSON object."""

import json
from typing import Any


def parsed(line: bytes) -> dict[str, Any] | None:
    """The line as an object, None where it is none. As strict as DuckDB, but for lone surrogates."""
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
