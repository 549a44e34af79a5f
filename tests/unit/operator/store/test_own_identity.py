"""A store without a Secret is opened with the operator's own identity only where the operator's settings say so."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine_operator.context import StoreBook
from engine_operator.domain.engine import ObjectStore
from engine_operator.domain.own_identity import grants_of, may_use_own_identity
from engine_operator.errors import UsageError
from engine_operator.settings import PREFIX, Settings
from engine_operator.store.address import Patience
from engine_operator.store.owner import Owner
from tests.support.fake_cluster import FakeCluster

GRANTED = "ruth=s3://models/live, boaz=s3://boaz-models"


@pytest.mark.parametrize(
    ("namespace", "uri", "may"),
    [
        ("ruth", "s3://models/live", True),
        ("ruth", "s3://models/live/", True),
        ("ruth", "s3://models/live/team", True),
        ("boaz", "s3://boaz-models/anything", True),
        ("boaz", "s3://models/live", False),
        ("naomi", "s3://models/live", False),
        ("ruth", "s3://models", False),
        ("ruth", "s3://models/live-of-others", False),
        ("ruth", "s3://models/live/../naomi", False),
        ("ruth", "s3://models//live", False),
        ("ruth", "https://models/live", False),
    ],
)
def test_the_operators_identity_is_for_listed_folders_of_listed_namespaces(
    namespace: str, uri: str, may: bool
) -> None:
    grants = Settings.load({f"{PREFIX}OWN_IDENTITY_STORES": GRANTED}).identity_grants()
    assert may_use_own_identity(grants, namespace, uri) is may


def test_nobody_has_the_operators_identity_where_no_setting_says_so() -> None:
    assert not may_use_own_identity(Settings().identity_grants(), "serval-live", "s3://models/live")


@pytest.mark.parametrize("entry", ["ruth", "s3://models/live", "=s3://models", "ruth=models", "ruth=s3://"])
def test_a_grant_that_can_not_be_read_ends_the_start(entry: str) -> None:
    with pytest.raises(UsageError, match="namespace=s3://bucket/folder"):
        Settings.load({f"{PREFIX}OWN_IDENTITY_STORES": entry})


@contextmanager
def an_s3_server(seen: list[str]) -> Iterator[str]:
    """Notes with which key each request was signed, and refuses them all."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_HEAD = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("reader", [None, "readers"])
async def test_a_tenant_without_a_secret_can_not_make_the_operator_ask_a_store_for_him(
    reader: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-operators-own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    seen: list[str] = []
    with an_s3_server(seen) as endpoint:
        book = StoreBook(FakeCluster().client(), Patience(), grants=grants_of(["ruth=s3://models/live"]))
        place = ObjectStore("s3://models/live", endpoint, reader_secret=reader)
        state = await book.state(place, "of-ruth", Owner("cluster", "naomi", "source"))
        assert state.store is None
        assert state.problem is not None
        assert state.problem.reason == "StoreMisconfigured"
        assert "secretRef is not set" in state.problem.message
        assert "'naomi'" in state.problem.message
        assert seen == []

        await book.state(ObjectStore("s3://models/live", endpoint), "x", Owner("cluster", "ruth", "source"))
        assert seen != []
        assert all("Credential=the-operators-own/" in one for one in seen)
