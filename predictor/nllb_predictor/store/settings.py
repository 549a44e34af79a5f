"""How to reach an S3 store. Credentials are botocore's business (`AWS_ACCESS_KEY_ID`, …), except where one process
opens two stores: a conversion's source may have keys of its own, and botocore's chain knows one set.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from nllb_predictor.errors import UsageError

SOURCE_PREFIX = "SERVAL_LIVE_SOURCE_"


@dataclass(frozen=True)
class Credentials:
    """Keys of one store. Nothing of them shows in a log."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


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

    credentials: Credentials | None = None
    """Keys; None means those that botocore finds."""

    @staticmethod
    def from_env(environ: Mapping[str, str] = os.environ) -> "StoreSettings":
        """From `SERVAL_LIVE_S3_ENDPOINT`, `_REGION` and `_CA_FILE`; an empty value counts as not set."""
        region = environ.get("SERVAL_LIVE_S3_REGION") or environ.get("AWS_REGION") or "us-east-1"
        return StoreSettings(
            endpoint=environ.get("SERVAL_LIVE_S3_ENDPOINT") or None,
            region=region,
            ca_file=environ.get("SERVAL_LIVE_S3_CA_FILE") or None,
        )

    @staticmethod
    def source_from_env(environ: Mapping[str, str] = os.environ) -> "StoreSettings | None":
        """From `SERVAL_LIVE_SOURCE_S3_ENDPOINT`, …`_S3_REGION`, …`_S3_CA_FILE`, …`_AWS_ACCESS_KEY_ID`,
        …`_AWS_SECRET_ACCESS_KEY` and …`_AWS_SESSION_TOKEN`; None where none is set, and the source is then read like
        the artifact store.

        One that is set makes the source a store of its own: an endpoint left out is AWS, never the artifact store's.
        Keys left out are those that botocore finds. Raises UsageError for half a pair of keys.
        """

        def told(name: str) -> str | None:
            return environ.get(SOURCE_PREFIX + name) or None

        endpoint, region, ca_file = told("S3_ENDPOINT"), told("S3_REGION"), told("S3_CA_FILE")
        access, secret = told("AWS_ACCESS_KEY_ID"), told("AWS_SECRET_ACCESS_KEY")
        if not any((endpoint, region, ca_file, access, secret)):
            return None
        if (access is None) != (secret is None):
            names = f"{SOURCE_PREFIX}AWS_ACCESS_KEY_ID and {SOURCE_PREFIX}AWS_SECRET_ACCESS_KEY"
            raise UsageError(f"{names} belong together.")
        keys = Credentials(access, secret, told("AWS_SESSION_TOKEN")) if access and secret else None
        region = region or environ.get("AWS_REGION") or "us-east-1"
        return StoreSettings(endpoint=endpoint, region=region, ca_file=ca_file, credentials=keys)
