"""A bucket of a real S3 server, and how tests publish into it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3.session
from botocore.config import Config

from devcluster.s3 import S3Server
from nllb_predictor.convert.manifest import Identity, Options, artifact_key
from nllb_predictor.convert.run import Converted, Request, Surroundings, convert
from nllb_predictor.store import StoreSettings
from tests.support.conversion import NOW
from tests.support.wire import Proxy

ENGINE = "66c4a1f09d3e5b7a8c0f1e21"
KEY = artifact_key(ENGINE, 3, Options())
HOME = f"s3://artifacts/live/home/{KEY}/"


@dataclass(frozen=True)
class Bucket:
    """The server, and a plain client behind the code's back."""

    server: S3Server
    client: Any

    @property
    def settings(self) -> StoreSettings:
        return StoreSettings(endpoint=self.server.endpoint, attempts=3, part_bytes=64 * 1024)

    def keys(self, prefix: str = "") -> list[str]:
        found = self.client.list_objects_v2(Bucket="artifacts", Prefix=prefix).get("Contents", [])
        return sorted(each["Key"] for each in found)

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket="artifacts", Key=key, Body=body)

    def get(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket="artifacts", Key=key)["Body"].read()
        return body


def publish(bucket: Bucket, source: str, tmp_path: Path, destination: str = HOME) -> Converted:
    request = Request(source, destination, Options(), Identity(ENGINE, 3, attempt="a1-7f3c9e"))
    return convert(request, Surroundings(tmp_path / "work", bucket.settings, now=lambda: NOW))


def presigned(bucket: Bucket, proxy: Proxy, key: str, seconds: int = 3600) -> str:
    signed = Config(signature_version="s3v4")
    client = boto3.session.Session().client(
        "s3", endpoint_url=proxy.url, region_name="us-east-1", config=signed
    )
    url: str = client.generate_presigned_url(
        "get_object", Params={"Bucket": "artifacts", "Key": key}, ExpiresIn=seconds
    )
    client.close()
    return url


def port(url: str) -> int:
    found = urlsplit(url).port
    assert found is not None
    return found
