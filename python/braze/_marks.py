"""What captures run in the place of marks that Dynamo is given within a graph, see _stand_ins.py."""

from typing import Any


def mark_static(t: Any, index: Any = None) -> Any:
    """torch._dynamo.mark_static: within a graph it asks that sizes be numbers, and changes no result."""
    return t if isinstance(t, type) else None
