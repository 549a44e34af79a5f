"""What crosses a process border, as JSON Schemas that every part ships and tests against.

Writer and reader live in different packages that never import each other; only these schemas are common. The
package holds no behaviour beyond handing a schema out.
"""

import json
from functools import cache
from importlib import resources
from typing import Any, Literal

SchemaName = Literal["manifest", "termination"]

SCHEMA_NAMES: tuple[SchemaName, ...] = ("manifest", "termination")
"""`manifest`: what stands beside a converted model; `termination`: the last line of a process that gives up."""


@cache
def _text(name: str) -> str:
    return resources.files(__name__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")


def schema(name: SchemaName) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of that name; a fresh copy, so that no caller changes another's.

    Raises FileNotFoundError for a name outside `SCHEMA_NAMES`.
    """
    loaded: dict[str, Any] = json.loads(_text(name))
    return loaded
