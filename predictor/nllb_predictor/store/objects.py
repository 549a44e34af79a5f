"""The seam to S3: whole objects by exact key, nothing else.

There is no listing here on purpose: a prefix that matches a sibling (`e1_1` and `e1_10`) has served the wrong model
elsewhere. Every foreign error leaves as one of the package's own, with the object's URI in the message.
"""

import re
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nllb_predictor.errors import (
    ObjectMissing,
    StoreError,
    StoreRefused,
    StoreUnreachable,
    StoreUntrusted,
    UsageError,
)
from nllb_predictor.store.settings import StoreSettings


@dataclass(frozen=True)
class S3Uri:
    """`s3://bucket/key`; the key has no leading slash."""

    bucket: str
    key: str

    @staticmethod
    def parse(uri: str) -> "S3Uri":
        """Raises UsageError where `uri` is no S3 URI or names no key."""
        match = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/+(.*)", uri)
        if match is None:
            raise UsageError(f"{uri!r} is not of the form s3://bucket/key.")
        if not match[2].strip("/"):
            raise UsageError(f"{uri!r} names a bucket but no key.")
        return S3Uri(match[1], match[2])

    def below(self, name: str) -> "S3Uri":
        """The key of `name` inside this folder; exactly one slash between them."""
        return S3Uri(self.bucket, f"{self.key.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class ObjectFacts:
    """What a HEAD says."""

    bytes: int
    etag: str


class ObjectStore(Protocol):
    """What the rest of the package needs of S3. All methods raise StoreError's family with the URI in the text."""

    def head(self, uri: S3Uri) -> ObjectFacts:
        """Size and ETag. Raises ObjectMissing."""

    def get(self, uri: S3Uri, limit: int) -> bytes:
        """A small object as a whole; StoreError if it is larger than `limit` bytes."""

    def read_range(self, uri: S3Uri, start: int, end: int, etag: str) -> Iterator[bytes]:
        """Bytes `start` to `end` (exclusive) in blocks, of the very version with this ETag."""

    def put(self, uri: S3Uri, data: bytes) -> None:
        """Write a small object at once."""

    def upload(self, uri: S3Uri, path: Path, advance: Any) -> None:
        """Write a file, in parts where it is large. `advance(count)` hears of every sent block."""


class S3Objects:
    """`ObjectStore` over boto3. One instance serves all threads."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._client = _client(settings)

    def head(self, uri: S3Uri) -> ObjectFacts:
        with self._errors(uri):
            answer = self._client.head_object(Bucket=uri.bucket, Key=uri.key)
        return ObjectFacts(int(answer["ContentLength"]), str(answer["ETag"]))

    def get(self, uri: S3Uri, limit: int) -> bytes:
        with self._errors(uri):
            answer = self._client.get_object(Bucket=uri.bucket, Key=uri.key)
            with closing(answer["Body"]) as body:
                data: bytes = body.read(limit + 1)
        if len(data) > limit:
            raise StoreError(f"{uri} is larger than the {limit} bytes that it may have.")
        return data

    def read_range(self, uri: S3Uri, start: int, end: int, etag: str) -> Iterator[bytes]:
        wanted = {"Range": f"bytes={start}-{end - 1}", "IfMatch": etag}
        with self._errors(uri):
            answer = self._client.get_object(Bucket=uri.bucket, Key=uri.key, **wanted)
            with closing(answer["Body"]) as body:
                yield from body.iter_chunks(1 << 20)

    def put(self, uri: S3Uri, data: bytes) -> None:
        with self._errors(uri):
            self._client.put_object(Bucket=uri.bucket, Key=uri.key, Body=data)

    def upload(self, uri: S3Uri, path: Path, advance: Any) -> None:
        from boto3.s3.transfer import TransferConfig

        part = max(self._settings.part_bytes, 5 * 1024 * 1024)
        config = TransferConfig(
            multipart_threshold=2 * part, multipart_chunksize=part, max_concurrency=self._settings.parallel
        )
        with self._errors(uri):
            self._client.upload_file(str(path), uri.bucket, uri.key, Config=config, Callback=advance)

    @contextmanager
    def _errors(self, uri: S3Uri) -> Iterator[None]:
        import boto3.exceptions
        import botocore.exceptions
        import urllib3.exceptions

        try:
            yield
        except botocore.exceptions.ClientError as error:
            raise _client_error(error, uri) from error
        except boto3.exceptions.S3UploadFailedError as error:
            raise StoreRefused(f"{uri} could not be written ({error}).") from error
        except (botocore.exceptions.NoCredentialsError, botocore.exceptions.PartialCredentialsError) as error:
            raise StoreRefused(f"{uri}: no complete credentials were found.", hint=_CREDENTIALS) from error
        except (botocore.exceptions.SSLError, ssl.SSLError) as error:
            raise StoreUntrusted(
                f"{uri}: the certificate of {self._where()} was not accepted ({error}).",
                hint=f"The CA that was tried: {self._settings.ca_file or 'the system store'}.",
            ) from error
        except (
            botocore.exceptions.BotoCoreError,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as error:
            raise StoreUnreachable(
                f"{uri}: {self._where()} did not answer or broke off ({error})."
            ) from error

    def _where(self) -> str:
        return self._settings.endpoint or "AWS S3"


_REFUSALS = (
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "XAdminUserNotFound",
)
"""Codes that mean credentials whatever status they come with: AWS sends an expired token with 400, and versitygw an
unknown key (the last one) with 404."""

_CREDENTIALS = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for the source of a conversion alone"
    " SERVAL_LIVE_SOURCE_AWS_ACCESS_KEY_ID and SERVAL_LIVE_SOURCE_AWS_SECRET_ACCESS_KEY."
)


def _client_error(error: Any, uri: S3Uri) -> StoreError:
    """The package's own error for an S3 error answer."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _REFUSALS:
        return StoreRefused(f"{uri}: access refused ({code}).", hint=_CREDENTIALS)
    if code in ("NoSuchKey", "NoSuchBucket", "NotFound") or status == 404:
        return ObjectMissing(f"{uri} does not exist.")
    if status == 412:
        return StoreUnreachable(f"{uri} was replaced while it was being read.")
    if status in (401, 403):
        return StoreRefused(f"{uri}: access refused ({code or status}).", hint=_CREDENTIALS)
    if status >= 500 or status == 429 or code in ("SlowDown", "RequestTimeout"):
        return StoreUnreachable(f"{uri}: the store answered {status} {code}.")
    return StoreError(f"{uri}: the store answered {status} {code}.")


def _client(settings: StoreSettings) -> Any:
    """A boto3 client; imported here because a predictor that reads a folder never needs it."""
    import boto3.session
    import botocore.config

    config = botocore.config.Config(
        connect_timeout=settings.connect_seconds,
        read_timeout=settings.read_seconds,
        retries={"total_max_attempts": settings.attempts, "mode": "standard"},
        max_pool_connections=settings.parallel + 2,
        s3={"addressing_style": "path" if settings.endpoint else "auto"},
        # Trailing checksums by default are an AWS extension that other servers refuse; the manifest has SHA-256.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    if settings.ca_file and not Path(settings.ca_file).is_file():
        raise StoreUntrusted(f"The CA file {settings.ca_file} does not exist.")
    keys = settings.credentials
    session = boto3.session.Session(
        region_name=settings.region,
        aws_access_key_id=keys.access_key if keys else None,
        aws_secret_access_key=keys.secret_key if keys else None,
        aws_session_token=keys.session_token if keys else None,
    )
    return session.client("s3", endpoint_url=settings.endpoint, verify=settings.ca_file, config=config)
