"""Model files in the shared bucket: `<folder>/models/<engineId>_<revision>.tar.gz`.

The stand-in trains nothing: archives of every kind come as files from elsewhere, only the one without members is made
here. The bucket belongs to a real S3 server that the tests or the demo run.
"""

import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import boto3.session
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.serval.clock import TICKS_PER_SECOND, Clock, Ticks
from tests.support.serval.domain import Engine, EngineType

LISTED_BY_CLEANUP = 1000
"""Serval's cleanup sees only the first page of the listing."""


@dataclass(frozen=True)
class EmptyArchive:
    """An archive without members, as a build without training data leaves it."""


EMPTY_ARCHIVE: Final = EmptyArchive()
Archive = Path | EmptyArchive


@dataclass(frozen=True)
class Bucket:
    """Where the models lie, and how to reach it."""

    name: str
    endpoint: str | None = None
    folder: str = "stand-in"
    region: str = "us-east-1"
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    public_endpoint: str | None = None
    """The endpoint written into download URLs, where callers reach the store by another address."""


@dataclass(frozen=True)
class Download:
    """A presigned link to one model."""

    url: str
    revision: int
    expires: Ticks


class ModelArchives:
    """The `models/` folder of one bucket. All calls block; run them outside the event loop."""

    def __init__(self, bucket: Bucket, clock: Clock) -> None:
        self.bucket = bucket
        self._clock = clock
        self._client = _client(bucket, bucket.endpoint)
        self._signer = _client(bucket, bucket.public_endpoint or bucket.endpoint)

    def key(self, engine_id: str, revision: int) -> str:
        return f"{self._prefix}{engine_id}_{revision}.tar.gz"

    def upload(self, engine_id: str, revision: int, archive: Archive) -> str:
        """Store an archive (multipart where it is large, as machine.py does) and return its key."""
        key = self.key(engine_id, revision)
        if isinstance(archive, Path):
            self._client.upload_file(str(archive), self.bucket.name, key)
            return key
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "empty.tar.gz"
            tarfile.open(path, "w:gz").close()
            self._client.upload_file(str(path), self.bucket.name, key)
        return key

    def remove(self, engine_id: str, revision: int) -> None:
        self._client.delete_object(Bucket=self.bucket.name, Key=self.key(engine_id, revision))

    def exists(self, engine_id: str, revision: int) -> bool:
        try:
            self._client.head_object(Bucket=self.bucket.name, Key=self.key(engine_id, revision))
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return False
            raise
        return True

    def keys(self) -> list[str]:
        """The first thousand keys below `models/`."""
        answer = self._client.list_objects_v2(
            Bucket=self.bucket.name, Prefix=self._prefix, MaxKeys=LISTED_BY_CLEANUP
        )
        return [item["Key"] for item in answer.get("Contents", [])]

    def download(self, engine_id: str, revision: int, lifetime: float) -> Download:
        """A presigned GET with an attachment name. Whether the object exists is not looked at."""
        name = f"{engine_id}_{revision}.tar.gz"
        url = self._signer.generate_presigned_url(
            "get_object",
            Params={
                "Bucket": self.bucket.name,
                "Key": self.key(engine_id, revision),
                "ResponseContentDisposition": f"attachment; filename={name}",
            },
            ExpiresIn=int(timedelta(seconds=lifetime).total_seconds()),
        )
        return Download(str(url), revision, Ticks(self._clock.now() + round(lifetime * TICKS_PER_SECOND)))

    def clean_up(self, engines: Iterable[Engine]) -> list[str]:
        """Serval's daily job: keep each nmt engine's revision and the next, delete everything else listed."""
        kept = {
            self.key(engine.id, engine.machine_revision + ahead)
            for engine in engines
            if engine.type is EngineType.NMT
            for ahead in (0, 1)
        }
        gone = [key for key in self.keys() if key not in kept]
        for key in gone:
            self._client.delete_object(Bucket=self.bucket.name, Key=key)
        return gone

    @property
    def _prefix(self) -> str:
        return f"{self.bucket.folder}/models/"


def _client(bucket: Bucket, endpoint: str | None) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=bucket.region,
        aws_access_key_id=bucket.access_key,
        aws_secret_access_key=bucket.secret_key,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
