"""Who calls: API keys, tokens from the client-credentials grant, and their scopes.

An owner is a name, nothing more: a key acts as the owner that it was minted for, a token as its `sub`. Keys are kept
as hashes, as Serval keeps them; the stand-in signs its tokens itself with a secret that lives as long as it does.
"""

import hashlib
import secrets
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace

import jwt

from tests.support.serval.clock import TICKS_PER_SECOND, Clock, ObjectIds, Ticks
from tests.support.serval.errors import Forbidden, NotFound, Unauthenticated
from tests.support.serval.settings import Settings

_RESOURCES = ("translation_engines", "word_alignment_engines", "files")
KEY_SCOPES = frozenset({f"{verb}:api_keys" for verb in ("create", "read", "delete")})
"""Scopes for managing keys; no key can carry them."""
ALL_SCOPES = frozenset(
    {f"{verb}:{what}" for what in _RESOURCES for verb in ("create", "read", "update", "delete")}
    | {"read:status"}
    | KEY_SCOPES
)
READ, CREATE, UPDATE, DELETE = (
    f"{verb}:translation_engines" for verb in ("read", "create", "update", "delete")
)
ALGORITHM = "HS256"


@dataclass(frozen=True)
class Identity:
    """A caller: the owner that the credential acts as, and what it may do."""

    owner: str
    scopes: frozenset[str]
    by_key: bool

    def require(self, scope: str) -> None:
        """Raises Forbidden where the scope is missing."""
        if scope not in self.scopes:
            raise Forbidden(scope)


@dataclass(frozen=True)
class ApiKey:
    """One key without its secret text."""

    id: str
    owner: str
    name: str
    scopes: frozenset[str]
    digest: str
    date_created: Ticks
    expires: Ticks | None = None
    revoked: bool = False


@dataclass(frozen=True)
class Client:
    """An application that may ask for tokens."""

    id: str
    secret: str
    owner: str
    scopes: frozenset[str]


class Access:
    """All keys, clients and tokens of one stand-in."""

    def __init__(self, settings: Settings, clock: Clock, ids: ObjectIds) -> None:
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._lock = threading.Lock()
        self._secret = secrets.token_hex(32)
        self._generation = 0
        self.keys: dict[str, ApiKey] = {}
        self._clients: dict[str, Client] = {}

    def add_key(
        self, owner: str, scopes: Iterable[str], name: str = "stand-in", expires: Ticks | None = None
    ) -> tuple[ApiKey, str]:
        """A new key and its text, `serval_<24 hex>_<43 base64url>`, which is not kept."""
        key_id = self._ids.new()
        text = f"serval_{key_id}_{urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip('=')}"
        key = ApiKey(
            key_id, owner, name, frozenset(scopes) - KEY_SCOPES, _digest(text), self._clock.now(), expires
        )
        with self._lock:
            self.keys[key_id] = key
        return key, text

    def revoke_key(self, key_id: str) -> None:
        """Mark the key as revoked; a second time changes nothing. Raises NotFound for an unknown key."""
        with self._lock:
            if key_id not in self.keys:
                raise NotFound(key_id)
            self.keys[key_id] = replace(self.keys[key_id], revoked=True)

    def add_client(self, owner: str, scopes: Iterable[str]) -> Client:
        """A client id and secret for the token end point; its tokens act as the owner."""
        client = Client(secrets.token_urlsafe(12), secrets.token_urlsafe(24), owner, frozenset(scopes))
        with self._lock:
            self._clients[client.id] = client
        return client

    def client(self, client_id: str, secret: str) -> Client | None:
        """The client, if the secret is its own."""
        client = self._clients.get(client_id)
        return client if client is not None and secrets.compare_digest(client.secret, secret) else None

    def token(self, owner: str, scopes: Iterable[str], lifetime: float | None = None) -> str:
        """A signed token for an owner, valid for `lifetime` seconds (default: the settings')."""
        now = self._clock.now() / TICKS_PER_SECOND
        claims = {
            "iss": self._settings.issuer,
            "aud": self._settings.audience,
            "sub": owner,
            "scope": " ".join(sorted(scopes)),
            "iat": now,
            "exp": now + (self._settings.token_lifetime if lifetime is None else lifetime),
            "generation": self._generation,
        }
        return jwt.encode(claims, self._secret, algorithm=ALGORITHM)

    def reject_tokens(self) -> None:
        """Every token issued so far is answered with 401 from now on."""
        self._generation += 1

    def identify(self, api_key: str | None, authorization: str | None) -> Identity:
        """The caller. With a key present the token is not looked at. Raises Unauthenticated."""
        if api_key is not None:
            return self._by_key(api_key)
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated(bearer=True)
        return self._by_token(token.strip())

    def _by_key(self, text: str) -> Identity:
        digest = _digest(text)
        now = self._clock.now()
        for key in list(self.keys.values()):
            valid = not key.revoked and (key.expires is None or key.expires > now)
            if valid and secrets.compare_digest(key.digest, digest):
                return Identity(key.owner, key.scopes, by_key=True)
        raise Unauthenticated(bearer=False)

    def _by_token(self, token: str) -> Identity:
        try:
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=[ALGORITHM],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                options={"verify_exp": False, "verify_iat": False, "require": ["exp", "sub"]},
            )
        except jwt.InvalidTokenError:
            raise Unauthenticated(bearer=True) from None
        expired = float(claims["exp"]) * TICKS_PER_SECOND <= self._clock.now()  # by the stand-in's own clock
        if expired or claims.get("generation") != self._generation:
            raise Unauthenticated(bearer=True)
        return Identity(str(claims["sub"]), frozenset(str(claims.get("scope", "")).split()), by_key=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest().upper()
