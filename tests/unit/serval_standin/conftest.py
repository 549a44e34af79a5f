"""One stand-in per test, callers of two owners, and an S3 server for those that move models."""

import tarfile
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import boto3.session
import httpx
import pytest
from moto.server import ThreadedMotoServer

from tests.support.serval import Bucket, ServalStandIn, Settings

API = "/api/v1/translation"
LONG_POLL = 20.0
"""Seconds that a poll waits where an event must come: never the reason for an answer, even on a busy machine."""
SHORT_POLL = 0.3
"""Seconds that a poll waits where nothing may come (set by `answers_408`)."""


@pytest.fixture
def serval() -> Iterator[ServalStandIn]:
    with ServalStandIn(Settings(long_poll_timeout=LONG_POLL)) as stand_in:
        yield stand_in


@pytest.fixture
async def ruth(serval: ServalStandIn) -> AsyncIterator[httpx.AsyncClient]:
    async with client(serval, serval.add_key("ruth")) as caller:
        yield caller


@pytest.fixture
async def boaz(serval: ServalStandIn) -> AsyncIterator[httpx.AsyncClient]:
    async with client(serval, serval.add_key("boaz")) as caller:
        yield caller


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_endpoint: str, request: pytest.FixtureRequest) -> Bucket:
    """A fresh bucket with credentials of nobody."""
    name = f"models-{abs(hash(request.node.name)) % 10**8}"
    found = Bucket(name, s3_endpoint, folder="production", access_key="test-id", secret_key="test-secret")
    s3_client(found).create_bucket(Bucket=name)
    return found


@pytest.fixture
def stocked(bucket: Bucket) -> Iterator[ServalStandIn]:
    """A stand-in with a bucket."""
    with ServalStandIn(Settings(long_poll_timeout=LONG_POLL), bucket) as stand_in:
        yield stand_in


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Any archive with one member: the stand-in never looks inside."""
    (tmp_path / "config.json").write_text("{}")
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        file.add(tmp_path / "config.json", "config.json")
    return path


def client(serval: ServalStandIn, key: str | None = None, token: str | None = None) -> httpx.AsyncClient:
    """A caller with an API key, a token, both or nothing."""
    headers = {"X-API-Key": key} if key is not None else {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return httpx.AsyncClient(base_url=serval.url, headers=headers, timeout=20)


async def answers_408(serval: ServalStandIn, call: Awaitable[httpx.Response]) -> bool:
    """Whether the call, as a short long poll, ends with 408."""
    serval.configure(long_poll_timeout=SHORT_POLL)
    answer = await call
    serval.configure(long_poll_timeout=LONG_POLL)
    return answer.status_code == 408


def s3_client(bucket: Bucket):  # type: ignore[no-untyped-def]
    return boto3.session.Session().client(
        "s3",
        endpoint_url=bucket.endpoint,
        region_name=bucket.region,
        aws_access_key_id=bucket.access_key,
        aws_secret_access_key=bucket.secret_key,
    )
