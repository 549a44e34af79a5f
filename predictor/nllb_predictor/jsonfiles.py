"""Reading JSON files of foreign origin: every failure names the file."""

import json
from pathlib import Path
from typing import Any

from nllb_predictor.errors import BrokenConfig, MissingFile


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object. Raises MissingFile and BrokenConfig, with the file's name."""
    value = _read(path)
    if not isinstance(value, dict):
        raise BrokenConfig(f"{path.name} does not hold a JSON object.")
    return value


def read_json_array(path: Path) -> list[Any]:
    """A JSON file that holds an array. Raises MissingFile and BrokenConfig, with the file's name."""
    value = _read(path)
    if not isinstance(value, list):
        raise BrokenConfig(f"{path.name} does not hold a JSON array.")
    return value


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MissingFile(f"{path.parent} has no {path.name}.") from None
    except (ValueError, RecursionError) as error:
        raise BrokenConfig(f"{path.name} is not JSON ({error}).") from error
