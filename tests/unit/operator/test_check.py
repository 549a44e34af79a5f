"""`engine-operator check` with each kind of credentials, against the stand-in for Serval."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_operator.cli import main
from tests.support.serval import EngineSpec, ServalStandIn


@pytest.fixture
def serval() -> Iterator[ServalStandIn]:
    with ServalStandIn() as stand_in:
        yield stand_in


def client_flags(serval: ServalStandIn, folder: Path, secret: str | None = None) -> list[str]:
    """Flags that name files with a client of Ruth's."""
    client = serval.add_client("ruth")
    (folder / "id").write_text(f"{client.id}\n")
    (folder / "secret").write_text(f"{secret or client.secret}\n")
    files = ["--client-id-file", str(folder / "id"), "--client-secret-file", str(folder / "secret")]
    return [*files, "--token-url", f"{serval.url}/oauth/token"]


def test_client_credentials_show_the_engines_of_their_owner(
    serval: ServalStandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = serval.add_engine(EngineSpec(owner="ruth", revision=3))
    serval.add_engine(EngineSpec(owner="naomi", revision=3))
    flags = client_flags(serval, tmp_path)
    assert main(["check", "--url", serval.url, "--output", "json", *flags]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["engineId"], row["servable"]) for row in rows] == [(mine.id, True)]


def test_a_wrong_secret_or_audience_is_refused_by_name_and_never_shown(
    serval: ServalStandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["check", "--url", serval.url]
    assert main([*base, *client_flags(serval, tmp_path, secret="not-the-secret")]) == 3
    told = capsys.readouterr().err
    assert "CredentialsRefused" in told
    assert "not-the-secret" not in told
    flags = client_flags(serval, tmp_path)
    assert main([*base, *flags, "--audience", "https://somebody-else.example.org/"]) == 3
    assert "/oauth/token answered 403" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "given: nothing"),
        (["--client-id-file", "id"], "given: --client-id-file"),
        (["--client-id-file", "id", "--client-secret-file", "id"], "and --token-url"),
        (["--api-key-file", "id", "--token-url", "http://127.0.0.1/"], "not both"),
        (["--api-key-file", "nowhere"], "--api-key-file nowhere: No such file"),
        (["--api-key-file", "empty"], "--api-key-file empty is empty"),
    ],
)
def test_half_a_credential_or_two_are_told_before_anybody_is_asked(
    flags: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "id").write_text("x")
    (tmp_path / "empty").write_text("\n")
    assert main(["check", "--url", "http://127.0.0.1:9", *flags]) == 2
    assert told in capsys.readouterr().err
