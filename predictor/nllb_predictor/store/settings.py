"""How to reach an S3 store. Credentials are not here: botocore's own chain finds them (`AWS_ACCESS_KEY_ID`, …)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class StoreSettings:
    """One S3 endpoint and the patience with it."""

    endpoint: str | None = None
    """URL of an S3-compatible server; None means AWS. Such servers are addressed path-style."""

    region: str = "us-east-1"
    """Serval's default; most S3-compatible servers ignore it but sign with it."""

    ca_file: str | None = None
    """PEM file with the CA of the endpoint; None means the system's CAs. A private server behind its own CA is
    normal in the places where this runs, and an unverified connection never is."""

    parallel: int = 8
    """Ranges that are read at the same time: one connection rarely fills a network card."""

    part_bytes: int = 16 * 1024 * 1024
    """Size of a range. Larger parts repeat more after a broken connection, smaller ones cost round trips."""

    attempts: int = 5
    """Tries per request and per part, with back-off between them, before the store counts as unreachable."""

    connect_seconds: float = 5.0
    """Wait for a connection; a wrong address must show within seconds."""

    read_seconds: float = 30.0
    """Wait between two bytes of an answer; a stalled connection is worse than a broken one."""

    @staticmethod
    def from_env(environ: Mapping[str, str] = os.environ) -> "StoreSettings":
        """From `SERVAL_LIVE_S3_ENDPOINT`, `_REGION` and `_CA_FILE`; an empty value counts as not set."""
        region = environ.get("SERVAL_LIVE_S3_REGION") or environ.get("AWS_REGION") or "us-east-1"
        return StoreSettings(
            endpoint=environ.get("SERVAL_LIVE_S3_ENDPOINT") or None,
            region=region,
            ca_file=environ.get("SERVAL_LIVE_S3_CA_FILE") or None,
        )
