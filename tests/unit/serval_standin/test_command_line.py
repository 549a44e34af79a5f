"""The stand-in in another process, driven by its command line."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.serval import Bucket, ServalStandIn
from tests.support.serval.cli import main
from tests.support.serval.verbs import VERBS
from tests.support.waiting import eventually_sync
from tests.unit.serval_standin.conftest import API, SHORT_POLL

COMMAND = (sys.executable, "-m", "tests.support.serval")


@dataclass(frozen=True)
class Running:
    """A stand-in process: where its state file is, and what it printed."""

    process: "subprocess.Popen[str]"
    state: Path
    facts: dict[str, Any]

    def verb(self, *arguments: str) -> Any:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert main([*arguments, "--state", str(self.state)]) == 0
        return json.loads(printed.getvalue())

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.facts["url"] + API + path, headers={"X-API-Key": self.facts["apiKey"]})


@pytest.fixture
def running(tmp_path: Path, bucket: Bucket) -> Iterator[Running]:
    state = tmp_path / "serval.json"
    place = ["--bucket", bucket.name, "--s3-endpoint", str(bucket.endpoint), "--folder", bucket.folder]
    keys = {"AWS_ACCESS_KEY_ID": "test-id", "AWS_SECRET_ACCESS_KEY": "test-secret"}
    process = subprocess.Popen(
        [*COMMAND, "serve", "--listen", "127.0.0.1:0", "--state", str(state), *place],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **keys},
    )
    assert process.stdout is not None
    with process:
        facts = json.loads(process.stdout.readline())
        yield Running(process, state, facts)
        process.send_signal(signal.SIGTERM)


def test_a_build_runs_from_the_command_line(running: Running, archive: Path) -> None:
    assert running.state.stat().st_mode & 0o777 == 0o600
    engine = running.verb("engine", "add", "--source", "en", "--target", "es", "--name", "demo")
    assert running.get("/engines").json()[0]["name"] == "demo"
    running.verb("build", "start", engine["id"])
    running.verb("build", "activate", engine["id"])
    running.verb("build", "progress", engine["id"], "0.5")
    done = running.verb("build", "finish", engine["id"], "--archive", str(archive))
    assert done["state"] == "Completed"
    download = running.get(f"/engines/{engine['id']}/model-download-url").json()
    assert httpx.get(download["url"]).content == archive.read_bytes()
    running.verb("build", "run", engine["id"], "--archive", "empty", "--ending", "faulted")
    assert len(running.verb("model", "list")) == 2
    running.verb("engine", "delete", engine["id"])
    assert running.get("/engines").json() == []
    assert len(running.verb("model", "cleanup")) == 2


def test_trouble_and_settings_from_the_command_line(running: Running) -> None:
    running.verb("fault", "answer", "503", "--path", "engines", "--times", "1")
    assert [running.get("/engines").status_code for _ in range(2)] == [503, 200]
    running.verb("server", "configure", "--long-poll-timeout", "0.1")
    assert running.get("/builds/next-finished").status_code == 408
    running.verb("server", "down")
    with pytest.raises(httpx.TransportError):
        running.get("/engines")
    running.verb("server", "up")
    assert running.get("/engines").status_code == 200
    assert running.verb("show", "state")["openPolls"] == 0


def test_sigterm_ends_it_and_removes_the_state_file(running: Running) -> None:
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(10) == 0
    eventually_sync(lambda: not running.state.exists())


def test_refusals_are_told_with_an_exit_code(
    serval: ServalStandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SERVAL_STANDIN_URL", raising=False)
    assert main(["engine", "delete", "0" * 24, "--url", serval.url]) == 1
    assert capsys.readouterr().err == f"NotFound: no engine {'0' * 24}\n"
    assert main(["engine", "list"]) == 2
    assert "--url" in capsys.readouterr().err
    assert main(["engine", "list", "--url", "http://127.0.0.1:9"]) == 3


def test_an_address_that_is_taken_or_none_is_told(
    serval: ServalStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--listen", serval.url.removeprefix("http://")]) == 1
    assert "cannot listen on 127.0.0.1:" in capsys.readouterr().err
    with pytest.raises(SystemExit) as refused:
        main(["serve", "--listen", "8200"])
    assert refused.value.code == 2


def test_help_names_every_group_and_verb() -> None:
    shown = subprocess.run([*COMMAND, "build", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(verb.name in shown for verb in VERBS if verb.group == "build")


def test_the_control_paths_list_themselves_and_check_arguments(serval: ServalStandIn) -> None:
    listed = httpx.get(f"{serval.url}/_standin").json()
    assert [entry["verb"] for entry in listed] == [f"{verb.group} {verb.name}" for verb in VERBS]
    bodies: tuple[object, ...] = ({"unknown": 1}, {"revision": "two"}, [])
    for body in bodies:
        answer = httpx.post(f"{serval.url}/_standin/engine/add", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]
    assert httpx.post(f"{serval.url}/_standin/engine/unknown").status_code == 404


def test_loss_verbs_work_over_the_control_paths(serval: ServalStandIn) -> None:
    def verb(path: str, **arguments: object) -> Any:
        answer = httpx.post(f"{serval.url}/_standin/{path}", json=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()

    first, second = verb("engine/add")["id"], verb("engine/add")["id"]
    for engine in (first, second):
        verb("build/start", engine=engine)
    assert len(verb("build/finish-together", engines=[first, second])) == 2
    verb("build/start", engine=first)
    held = verb("build/finish", engine=first, uncommitted=True)
    assert serval.engine(first).model_revision == 1
    verb("build/commit", build=held["id"])
    assert serval.engine(first).model_revision == 2
    verb("build/run-in-gap", engine=second)
    key = verb("key/add", owner="ruth")["key"]
    assert re.match("serval_", key)
    verb("server/configure", **{"long-poll-timeout": SHORT_POLL})
    httpx.get(f"{serval.url}{API}/builds/next-finished", headers={"X-API-Key": key})
    assert serval.engine(second).model_revision == 2
    before = serval.clock.now()
    verb("clock/step", seconds=-60)
    assert serval.clock.now() < before
