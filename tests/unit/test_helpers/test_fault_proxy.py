"""The fault proxy does to HTTP what it is told, and nothing else."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.support.fault_proxy import HTML_502, Answer, Fault, FaultProxy, Kind, Match, Upstream
from tests.support.waiting import eventually

LINES = 5


class Dripping(ThreadingHTTPServer):
    """Knows how many lines it may send."""

    more: threading.Semaphore


class Echo(BaseHTTPRequestHandler):
    """Answers with what was sent; `/drip` sends a line whenever its server's `more` allows one."""

    protocol_version = "HTTP/1.1"
    server: Dripping

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path.startswith("/drip"):
            self.send_header("Connection", "close")
            self.end_headers()
            for _ in range(LINES):
                self.server.more.acquire(timeout=10)
                self.wfile.write(b"line\n")
            self.close_connection = True
            return
        self._answer(self.path.encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def server() -> Iterator[Dripping]:
    with Dripping(("127.0.0.1", 0), Echo) as server:
        server.more = threading.Semaphore(0)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.more.release(100)
        server.shutdown()
        thread.join(10)


@pytest.fixture
def proxy(server: Dripping) -> Iterator[FaultProxy]:
    with FaultProxy(Upstream(server.server_port)) as made:
        yield made


async def lines_into(lines: list[str], proxy: FaultProxy) -> None:
    async with (
        httpx.AsyncClient(base_url=proxy.url, timeout=20) as http,
        http.stream("GET", "/drip") as answer,
    ):
        async for line in answer.aiter_lines():
            lines.append(line)  # noqa: PERF401, since tests look at the list while it grows


async def test_requests_pass_untouched_and_are_remembered(proxy: FaultProxy) -> None:
    async with httpx.AsyncClient(base_url=proxy.url, headers={"User-Agent": "me"}) as http:
        assert (await http.get("/a?b=c")).text == "/a?b=c"
        assert (await http.post("/d", content=b"x" * 200_000)).content == b"x" * 200_000
    assert [(one.method, one.target) for one in proxy.requests(agent="me")] == [
        ("GET", "/a?b=c"),
        ("POST", "/d"),
    ]


async def test_answers_of_its_own_go_to_matching_requests_as_often_as_asked(proxy: FaultProxy) -> None:
    proxy.add(Fault(Kind.ANSWER, Match("/busy", times=2), answer=Answer(429, "later", retry_after=7)))
    async with httpx.AsyncClient(base_url=proxy.url) as http:
        found = [await http.get(path) for path in ("/busy", "/other", "/busy", "/busy")]
    assert [one.status_code for one in found] == [429, 200, 429, 200]
    assert found[0].headers["retry-after"] == "7"


async def test_a_late_answer_cuts_only_what_has_not_begun_to_answer(
    proxy: FaultProxy, server: Dripping
) -> None:
    lines: list[str] = []
    proxy.add(Fault(Kind.ANSWER, Match("/(quick|drip)"), after=0.3, answer=HTML_502))
    hang = proxy.add(Fault(Kind.HANG, Match("/quick")))
    reading = asyncio.create_task(lines_into(lines, proxy))
    async with httpx.AsyncClient(base_url=proxy.url) as http:
        cut = await http.get("/quick")
    assert (cut.status_code, cut.headers["content-type"]) == (502, "text/html")
    proxy.mend(hang)
    server.more.release(LINES)
    await reading
    assert len(lines) == LINES


async def test_a_reset_is_a_reset(proxy: FaultProxy) -> None:
    fault = proxy.add(Fault(Kind.RESET))
    async with httpx.AsyncClient(base_url=proxy.url) as http:
        with pytest.raises(httpx.ReadError):
            await http.get("/")
        proxy.mend(fault)
        assert (await http.get("/")).status_code == 200


async def test_what_hangs_goes_on_where_it_stopped_and_what_comes_later_passes(
    proxy: FaultProxy, server: Dripping
) -> None:
    lines: list[str] = []

    reading = asyncio.create_task(lines_into(lines, proxy))
    server.more.release(1)
    await eventually(lambda: len(lines) == 1)
    fault = proxy.add(Fault(Kind.HANG, only_running=True))
    server.more.release(LINES - 1)
    async with httpx.AsyncClient(base_url=proxy.url) as http:
        assert (await http.get("/new")).status_code == 200
    assert len(lines) == 1
    proxy.mend(fault)
    await reading
    assert len(lines) == LINES


async def test_of_a_half_open_connection_the_client_hears_nothing(proxy: FaultProxy) -> None:
    proxy.add(Fault(Kind.HALF_OPEN, Match("/gone")))
    async with httpx.AsyncClient(base_url=proxy.url) as http:
        with pytest.raises(httpx.ReadTimeout):
            await http.get("/gone", timeout=0.3)
        assert (await http.get("/here")).status_code == 200
