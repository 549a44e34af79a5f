"""Logs of the process: one line per event on stderr, as text or as JSON.

Text of callers never gets here unless `--log-text` says so: lines have names and numbers. The names of attributes
that a line may carry beyond its message are listed, so that nothing slips in by accident.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

NOISY = ("botocore", "boto3", "urllib3", "s3transfer", "httpx", "httpcore", "asyncio")

FIELDS = ("request", "protocol", "outcome", "segments", "seconds", "trace", "texts", "translations")
"""What a record may carry under `extra`."""


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= fields(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """Time, level, logger, message, and fields as key=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        first, newline, rest = super().format(record).partition("\n")
        pairs = "".join(f" {name}={value}" for name, value in fields(record).items())
        return f"{first}{pairs}{newline}{rest}"


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """The listed attributes that the record has."""
    return {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}


def configure(level: str, form: str) -> None:
    """Set up the root logger; the noise of libraries stays out."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
