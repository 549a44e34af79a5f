"""`translate`, `compare` and `doctor`: files that are continued, servers that are busy, troubles that are told."""

import json
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nllb_predictor import cli
from nllb_predictor.commands import doctor
from nllb_predictor.commands.backends import How, Line, Remote, lines_of
from nllb_predictor.commands.compare import Comparison, report
from nllb_predictor.commands.machine import BESIDE_WEIGHTS, Grade, memory
from nllb_predictor.commands.outfile import Job, OutputFile
from nllb_predictor.commands.translate import split_lines
from nllb_predictor.convert.manifest import Identity
from nllb_predictor.convert.run import Request, convert
from nllb_predictor.errors import CallFailed, DestinationInUse, UsageError
from tests.support.cases import case
from tests.support.checkpoints import Recipe, make_checkpoint
from tests.support.conversion import surroundings

pytestmark = pytest.mark.usefixtures("own_process_settings")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    source = make_checkpoint(tmp_path / "source", Recipe(positions=1024))
    request = Request(str(source), str(tmp_path / "model"), identity=Identity("66c4", 3))
    convert(request, surroundings(tmp_path / "work"))
    return tmp_path / "model"


class Upper:
    """A v2 server that answers with capitals, or with what a test puts before that."""

    def __init__(self) -> None:
        self.first: list[tuple[int, dict[str, str], bytes]] = []
        self.bodies: list[dict[str, Any]] = []

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = [text.upper() for text in body["inputs"][0]["data"]]
        shape = [len(texts), 1]
        return {
            "outputs": [
                {"name": "translation", "datatype": "BYTES", "shape": shape, "data": texts},
                {"name": "score", "datatype": "FP32", "shape": shape, "data": [-0.5] * len(texts)},
            ]
        }


@pytest.fixture
def server() -> Iterator[tuple[Upper, str]]:
    upper = Upper()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {}, json.dumps({"models": ["e66c4"]}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if upper.first:
                self._send(*upper.first.pop(0))
                return
            assert self.path == "/v2/models/e66c4/infer"
            upper.bodies.append(body)
            self._send(200, {}, json.dumps(upper.answer(body)).encode())

        def _send(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=running.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield upper, f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        thread.join(10)
        running.server_close()


def test_a_line_goes_to_a_server_and_its_answer_to_standard_output(
    server: tuple[Upper, str], capsys: pytest.CaptureFixture[str]
) -> None:
    upper, url = server
    assert cli.main(["translate", "--url", url, "--target-language", "es", "in the beginning"]) == 0
    assert capsys.readouterr().out == "IN THE BEGINNING\n"
    (body,) = upper.bodies
    assert body["inputs"][1] == {"name": "target_language", "datatype": "BYTES", "shape": [1], "data": ["es"]}


def test_a_busy_server_is_asked_again_after_the_time_that_it_names(server: tuple[Upper, str]) -> None:
    upper, url = server
    upper.first = [(429, {"retry-after": "7"}, b"{}"), (503, {}, b"{}")]
    waits: list[float] = []
    answers = Remote(url, sleep=waits.append).translate(["a"], How())
    assert [each.text for each in answers] == ["A"]
    assert waits == [7.0, 1.0]


def test_a_refusal_is_told_in_the_servers_words(server: tuple[Upper, str]) -> None:
    upper, url = server
    words = {"error": "No such language.", "reason": "UnknownLanguage", "hint": "Near: spa_Latn."}
    upper.first = [(400, {}, json.dumps(words).encode())]
    with pytest.raises(CallFailed, match=r"400: No such language\. Near: spa_Latn\."):
        Remote(url).translate(["a"], How())


def test_a_server_that_is_not_there_fails_with_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["translate", "--url", "http://127.0.0.1:9", "x"]) == 60
    assert "CallFailed: http://127.0.0.1:9 does not answer" in capsys.readouterr().err


def test_a_file_is_translated_line_by_line_whatever_its_lines_hold(
    server: tuple[Upper, str], tmp_path: Path
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes("one\r\n\ntwo\u2028three\nfour".encode())
    arguments = ["translate", "--url", server[1], "-i", str(source), "-o", str(target)]
    assert cli.main(arguments) == 0
    assert target.read_text(encoding="utf-8").split("\n") == ["ONE", "", "TWO THREE", "FOUR", ""]
    assert cli.main(arguments) == 23, "a finished output is not overwritten"
    assert cli.main([*arguments, "--force"]) == 0


def test_an_interrupted_run_goes_on_behind_its_last_whole_line(
    server: tuple[Upper, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upper, url = server
    source, target = tmp_path / "in", tmp_path / "out"
    lines = [f"line {number}" for number in range(200)]
    source.write_text("".join(line + "\n" for line in lines))
    arguments = ["translate", "--url", url, "-i", str(source), "-o", str(target)]
    good = upper.answer

    def fail_on_the_third(body: dict[str, Any]) -> dict[str, Any]:
        if len(upper.bodies) == 3:
            upper.first = [(400, {}, b'{"error": "broken"}')]
        return good(body)

    upper.answer = fail_on_the_third  # type: ignore[method-assign]
    assert cli.main(arguments) == 60
    with target.open("a") as file:
        file.write("LINE 19")  # torn in the middle of a line
    upper.bodies.clear()
    upper.answer = good  # type: ignore[method-assign]
    assert cli.main(arguments) == 0
    assert target.read_text().splitlines() == [line.upper() for line in lines]
    asked = [text for body in upper.bodies for text in body["inputs"][0]["data"]]
    assert asked == lines[192:]
    assert "going on after line 192 of 200" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.glob("*out*")) == ["out"]
    assert not (tmp_path / ".out.unfinished").exists()


def test_an_output_of_another_input_is_never_continued(tmp_path: Path) -> None:
    first = OutputFile(tmp_path / "out", Job(["a", "b"], "model"))
    first.append(["A"])
    for job in (Job(["a", "c"], "model"), Job(["a", "b"], "another model")):
        with pytest.raises(DestinationInUse, match="unfinished output of another input"):
            OutputFile(tmp_path / "out", job)
    assert OutputFile(tmp_path / "out", Job(["a", "b"], "model")).done == 1
    assert (tmp_path / "out").read_text() == "A\n"


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", []), (b"a", ["a"]), (b"a\n", ["a"]), (b"\n\n", ["", ""]), (b"\xef\xbb\xbfa\r\nb\r\n", ["a", "b"])],
)
def test_lines_end_with_lf_or_crlf(content: bytes, lines: Sequence[str]) -> None:
    assert split_lines(content, "x") == lines


def test_a_file_that_is_not_utf8_is_refused_with_the_byte() -> None:
    with pytest.raises(UsageError, match="at byte 1"):
        split_lines(b"a\xff", "x")


def test_missing_cells_of_hypotheses_are_left_out() -> None:
    found = lines_of(
        {
            "translation": {"shape": [2, 2], "data": ["a", "b", "c", ""]},
            "score": {"shape": [2, 2], "data": [-1.0, -2.0, -3.0, 0.0]},
        }
    )
    assert found == [Line((("a", -1.0), ("b", -2.0))), Line((("c", -3.0),))]


def test_a_model_is_loaded_and_asked_without_a_server(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("the river rose\n\nnobody slept\n")
    arguments = ["translate", "--model", str(model), "-i", str(tmp_path / "in"), "--hypotheses", "2"]
    assert cli.main(arguments) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 3
    assert rows[1]["translation"] == ""
    assert all(row["score"] <= 0 and row["alternatives"][0]["translation"] for row in (rows[0], rows[2]))


def test_two_models_are_compared_line_by_line(
    server: tuple[Upper, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("one\ntwo\n")
    (tmp_path / "reference").write_text("ONE\nTWO\n")
    url = server[1]
    arguments = ["compare", url, url, "-i", str(tmp_path / "in"), "--reference", str(tmp_path / "reference")]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "equal: 2 of 2 lines (100.00%)" in out
    assert "chrF A: 100.00" in out


def test_differing_lines_are_shown_with_their_numbers() -> None:
    comparison = Comparison(("a", "b", "c"), ("A", "B", "C"), ("A", "X", "Y"))
    text = report(comparison, show=1)
    assert text.splitlines() == [
        "2: b",
        "  A: B",
        "  B: X",
        "… and 1 more",
        "equal: 1 of 3 lines (33.33%)",
    ]


def findings(
    arguments: dict[str, Any], environment: dict[str, str] | None = None
) -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.examine(arguments, environment or {})}


def ports() -> dict[str, Any]:
    return {"rest_port": 0, "grpc_port": 0, "host": "127.0.0.1"}


def test_a_sound_model_has_nothing_in_its_way(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", str(model), "--rest-port", "0", "--grpc-port", "0"]) == 0
    out = capsys.readouterr().out
    assert "nothing stands in the way" in out
    assert "eng_Latn to spa_Latn, this pair only" in out


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({"engine_id": "other"}, "identity", "the engine id other is wanted"),
        ({"manifest_sha256": "0" * 64}, "model", "ChecksumMismatch"),
        ({"device": "cuda"}, "device", "No CUDA device"),
        ({"s3_ca_file": "/nowhere.pem"}, "ca", "No such file"),
        ({"beam_size": 99}, "settings", "above --max-beam-size"),
        ({"cache_dir": "/proc/nowhere"}, "cache", "cannot be written"),
    ],
)
def test_each_trouble_is_found_and_has_a_remedy(
    model: Path, change: dict[str, Any], name: str, words: str
) -> None:
    finding = findings({"model_uri": str(model), **ports(), **change})[name]
    assert finding.level is doctor.Level.TROUBLE
    assert words in finding.message
    assert finding.remedy or name == "settings"


def test_a_damaged_file_and_a_taken_port_are_told_in_one_run(model: Path, server: tuple[Upper, str]) -> None:
    (model / "tokenizer.json").write_text("{}")
    taken = int(server[1].rpartition(":")[2])
    found = findings({"model_uri": str(model), **ports(), "rest_port": taken})
    assert found["model"].level is doctor.Level.TROUBLE
    assert found["rest port"].level is doctor.Level.TROUBLE
    assert "--rest-port" in found["rest port"].remedy


def test_a_store_that_does_not_answer_is_told_with_what_to_check(tmp_path: Path) -> None:
    environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}

    class Unreachable:
        def get(self, uri: object, limit: int) -> bytes:
            from nllb_predictor.errors import StoreUnreachable

            raise StoreUnreachable(f"{uri} did not answer.")

    flags = {"model_uri": "s3://bucket/66c4/r3/ct2v1-1a2b3c4d/", "cache_dir": str(tmp_path), **ports()}
    found = {each.name: each for each in doctor.examine(flags, environment, Unreachable())}  # type: ignore[arg-type]
    assert found["model"].level is doctor.Level.TROUBLE
    assert "--s3-endpoint" in found["model"].remedy


def test_a_misspelt_variable_is_a_trouble(model: Path) -> None:
    found = findings({"model_uri": str(model)}, {"SERVAL_LIVE_BEEM_SIZE": "4"})
    assert found["settings"].level is doctor.Level.TROUBLE
    assert "SERVAL_LIVE_BEEM_SIZE" in found["settings"].message


def test_a_model_that_does_not_fit_the_memory_limit_is_a_trouble(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("700000000\n")
    assert memory(620_000_000, tmp_path)[0].grade is Grade.BAD
    assert memory(700_000_000 - BESIDE_WEIGHTS - 1, tmp_path)[0].grade is Grade.DOUBTFUL
    (tmp_path / "memory.max").write_text("max\n")
    assert memory(1000, tmp_path)[0].grade is Grade.GOOD


@pytest.mark.parametrize("command", ["translate", "compare", "doctor", "convert", "serve"])
def test_help_teaches_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([command, "--help"])
    assert left.value.code == 0
    assert f"  nllb-predictor {command} " in capsys.readouterr().out


@case(
    "p41",
    breaks="nllb_predictor.server.raw:cache_name",
    naive=lambda uri, quantization: f"c-{time.monotonic_ns()}",
)
def test_p41_a_read_only_checkpoint_is_converted_once_and_named_in_the_metadata(tmp_path: Path) -> None:
    """Twice from a folder that nothing may be written into; the second start converts nothing."""
    from nllb_predictor.server.lifecycle import Lifecycle, PhaseName
    from nllb_predictor.server.loading import load
    from nllb_predictor.settings import from_sources

    source = make_checkpoint(tmp_path / "mounted", Recipe(positions=1024))
    before = {path.name: path.stat().st_mtime_ns for path in source.iterdir()}
    for path in (*source.iterdir(), source):
        path.chmod(0o555 if path.is_dir() else 0o444)
    settings = from_sources({"model_uri": str(source), "cache_dir": str(tmp_path / "cache")}, {})
    made = []
    for _ in range(2):
        lifecycle = Lifecycle()
        lifecycle.since_start(PhaseName.PYTHON)
        loaded = load(settings, lifecycle)
        assert loaded.properties()["modelUri"] == str(source)
        loaded.scheduler.close()
        loaded.service.close()
        (folder,) = [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]
        made.append((folder.name, (folder / "manifest.json").stat().st_mtime_ns))
    assert made[0] == made[1]
    assert {path.name: path.stat().st_mtime_ns for path in source.iterdir()} == before
