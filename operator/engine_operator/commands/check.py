"""`engine-operator check`: which engines of an account can be served, and why not, before anything is installed."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from engine_operator.domain.engine import EngineSelector
from engine_operator.domain.serval_facts import ServalEngine, servable
from engine_operator.errors import UsageError
from engine_operator.serval.auth import ApiKeyAuth, ClientCredentials, ClientCredentialsAuth
from engine_operator.serval.client import ServalClient
from engine_operator.serval.facts import facts_of


@dataclass(frozen=True)
class Row:
    """One engine and its verdict."""

    engine: ServalEngine
    reason: str
    message: str

    @property
    def servable(self) -> bool:
        """Whether it would be served."""
        return not self.reason


async def rows(client: ServalClient) -> list[Row]:
    """Every engine of the account, servable ones first. Raises ServalError."""
    found: list[Row] = []
    for dto in await client.engines():
        engine = facts_of(dto)
        verdict = servable(engine, EngineSelector())
        found.append(Row(engine, verdict.reason if verdict else "", verdict.message if verdict else ""))
    return sorted(found, key=lambda row: (not row.servable, row.engine.name, row.engine.id))


@dataclass(frozen=True)
class CredentialFiles:
    """Where the account's credentials are: a key, or a client of the identity provider."""

    api_key: Path | None = None
    client_id: Path | None = None
    client_secret: Path | None = None
    token_url: str | None = None
    audience: str | None = None

    def auth(self) -> httpx.Auth:
        """How to prove who we are. Raises UsageError where nothing, half of it, or both are given."""
        ours = {"--client-id-file": self.client_id, "--client-secret-file": self.client_secret}
        given = [name for name, value in {**ours, "--token-url": self.token_url}.items() if value]
        if self.api_key is not None:
            if given or self.audience:
                raise UsageError("--api-key-file or a client's flags, not both")
            return ApiKeyAuth(_read("--api-key-file", self.api_key))
        if self.client_id is None or self.client_secret is None or not self.token_url:
            wanted = "--api-key-file, or --client-id-file, --client-secret-file and --token-url"
            raise UsageError(f"give {wanted}; given: {', '.join(given) or 'nothing'}")
        client = ClientCredentials(
            self.token_url,
            _read("--client-id-file", self.client_id),
            _read("--client-secret-file", self.client_secret),
        )
        return ClientCredentialsAuth(replace(client, audience=self.audience) if self.audience else client)


def _read(flag: str, file: Path) -> str:
    try:
        found = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"{flag} {file}: {error.strerror}") from error
    if not found:
        raise UsageError(f"{flag} {file} is empty")
    return found


async def check(url: str, auth: httpx.Auth, output: str) -> int:
    """Print the list; 0 if at least one engine can be served, else 1."""
    async with ServalClient(url, auth) as client:
        found = await rows(client)
    print(as_json(found) if output == "json" else as_text(found))
    return 0 if any(row.servable for row in found) else 1


def as_json(found: list[Row]) -> str:
    """One object per engine."""
    return json.dumps(
        [
            {
                "engineId": row.engine.id,
                "name": row.engine.name,
                "sourceLanguage": row.engine.source_language,
                "targetLanguage": row.engine.target_language,
                "type": row.engine.type,
                "modelRevision": row.engine.model_revision,
                "servable": row.servable,
                "reason": row.reason or None,
                "message": row.message or None,
            }
            for row in found
        ],
        indent=2,
        ensure_ascii=False,
    )


def as_text(found: list[Row]) -> str:
    """A table, and what to do about engines that can't be served."""
    if not found:
        return "The account has no engines. (Each key sees only the engines of its own client.)"
    table = [("SERVABLE", "ENGINE", "NAME", "LANGUAGES", "REVISION", "WHY NOT")]
    table += [
        (
            "yes" if row.servable else "no",
            row.engine.id,
            row.engine.name or "-",
            f"{row.engine.source_language} > {row.engine.target_language}",
            str(row.engine.model_revision),
            f"{row.reason}: {row.message}" if row.reason else "",
        )
        for row in found
    ]
    widths = [max(len(line[column]) for line in table) for column in range(5)]
    lines = [
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[5]]).rstrip()
        for line in table
    ]
    good = sum(row.servable for row in found)
    lines += ["", f"{good} of {len(found)} engines can be served."]
    if any(row.reason == "ModelNotPersisted" for row in found):
        lines.append(
            "Serval keeps a model file only for engines created with isModelPersisted: true; that can't be changed "
            "later. Create such an engine anew to have it served."
        )
    return "\n".join(lines)
