"""Where an artifact store is, with which keys, and the S3 calls on it: each in a thread, each with a time limit.

Refuses to let one silent store stop the others: calls run in a pool of their own and give up after `Patience`.
"""

import asyncio
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    SSLError,
)

from engine_operator.errors import StoreError, StoreMisconfigured, StoreRefuses, StoreUnreachable

T = TypeVar("T")

_REFUSED = frozenset(
    {
        "AccessDenied",
        "403",
        "Forbidden",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
    }
)
_NO_BUCKET = frozenset({"NoSuchBucket"})
MISSING = frozenset({"NoSuchKey", "404", "NotFound"})
"""Error codes of an object that is not there."""


@dataclass(frozen=True)
class StoreKeys:
    """One set of S3 credentials."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class StoreAddress:
    """One bucket and folder. `uri` is `s3://bucket/folder`; `endpoint` None is AWS itself."""

    uri: str
    endpoint: str | None = None
    region: str | None = None
    ca: str | None = None
    """PEM of the authority that signed the endpoint's certificate."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._parts()[0]

    @property
    def folder(self) -> str:
        """Key prefix, empty or ending in a slash."""
        folder = self._parts()[1].strip("/")
        return f"{folder}/" if folder else ""

    def _parts(self) -> tuple[str, str]:
        if not self.uri.startswith("s3://") or self.uri == "s3://":
            raise StoreMisconfigured(f"artifactStore.uri {self.uri!r} is not of the form s3://bucket/folder")
        bucket, _, folder = self.uri.removeprefix("s3://").partition("/")
        if not bucket:
            raise StoreMisconfigured(f"artifactStore.uri {self.uri!r} names no bucket")
        return bucket, folder


@dataclass(frozen=True)
class Patience:
    """Seconds that S3 calls may take."""

    connect: float = 4.0
    """TCP and TLS; a store in reach answers in milliseconds."""

    read: float = 8.0
    """Between two bytes. We read manifests and listings, never models."""

    whole: float = 25.0
    """One operation, retries and further pages included."""


class S3:
    """Blocking S3 calls of one bucket, run in a bounded pool of threads that a silent store can fill, but not pass."""

    _pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="s3")

    def __init__(
        self, address: StoreAddress, keys: StoreKeys | None, patience: Patience | None = None
    ) -> None:
        self.address = address
        self._keys = keys
        self._patience = patience or Patience()
        self._made: Any = None

    async def call(self, operation: Callable[[Any], T]) -> T:
        """Run `operation(client)` in a thread. Raises StoreError; a missing object is the caller's to handle."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._patience.whole):
                return await loop.run_in_executor(self._pool, self._run, operation)
        except TimeoutError as error:
            raise StoreUnreachable(
                f"{self._where()} did not answer within {self._patience.whole:.0f} s"
            ) from error

    def _run(self, operation: Callable[[Any], T]) -> T:
        try:
            return operation(self._client())
        except ClientError as error:
            raise self._meaning(error) from error
        except SSLError as error:
            raise StoreMisconfigured(f"{self._where()}: its certificate is not trusted ({error})") from error
        except NoCredentialsError as error:
            raise StoreMisconfigured(f"{self._where()}: no credentials") from error
        except (EndpointConnectionError, BotoCoreError) as error:
            raise StoreUnreachable(f"{self._where()}: {error}") from error
        except ValueError as error:
            raise StoreMisconfigured(f"{self._where()}: {error}") from error

    def _client(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> Any:
        keys = self._keys
        session = boto3.session.Session(
            aws_access_key_id=keys.access_key if keys else None,
            aws_secret_access_key=keys.secret_key if keys else None,
            aws_session_token=keys.session_token if keys else None,
        )
        config = Config(
            connect_timeout=self._patience.connect,
            read_timeout=self._patience.read,
            retries={"total_max_attempts": 2, "mode": "standard"},
            s3={"addressing_style": "path" if self.address.endpoint else "auto"},
            # Many S3 servers know nothing of the newer default checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return session.client(
            "s3",
            endpoint_url=self.address.endpoint,
            region_name=self.address.region or "us-east-1",
            verify=_ca_file(self.address.ca) if self.address.ca else None,
            config=config,
        )

    def _meaning(self, error: ClientError) -> StoreError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        said = f"{self._where()}: {error}"
        if code in _NO_BUCKET:
            return StoreMisconfigured(f"bucket {self.address.bucket!r} does not exist at {self._where()}")
        if code in _REFUSED or status == 403:
            return StoreRefuses(said)
        if status >= 500 or status == 429 or code in ("SlowDown", "RequestTimeout"):
            return StoreUnreachable(said)
        return StoreError(said)

    def _where(self) -> str:
        return f"{self.address.endpoint or 'AWS S3'} {self.address.uri}"


def is_missing(error: BaseException | None) -> bool:
    """Whether an error, or its cause, says that the object is not there."""
    if isinstance(error, StoreError):
        error = error.__cause__
    return isinstance(error, ClientError) and str(error.response.get("Error", {}).get("Code", "")) in MISSING


_ca_files: dict[str, str] = {}


def _ca_file(pem: str) -> str:
    # botocore takes an authority only as a file; one file for each distinct authority, for the process's life.
    if pem not in _ca_files:
        with tempfile.NamedTemporaryFile("w", suffix=".pem", prefix="serval-live-ca-", delete=False) as file:
            file.write(pem)
        _ca_files[pem] = str(Path(file.name))
    return _ca_files[pem]
