"""Where the Kubernetes API is and how to prove who we are: inside a pod, or by a kubeconfig for development.

Refuses exec and auth-provider plugins of a kubeconfig: those run foreign programs. Inside a pod the token's file is
read again and again, since kubelet replaces it every hour and the API forgets the old one.
"""

import base64
import os
import ssl
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from engine_operator.errors import UsageError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_LIFE = 30.0
"""Seconds for which a read token is used before its file is read again."""


class BearerAuth(httpx.Auth, ABC):
    """A bearer token, for our own client and for kopf's session alike."""

    @abstractmethod
    def bearer(self) -> str:
        """The token to use now."""

    def refused(self) -> None:
        """The API answered 401: whatever was kept is of no use."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self.bearer()}"
        response = yield request
        if response.status_code == 401:
            self.refused()
            request.headers["Authorization"] = f"Bearer {self.bearer()}"
            yield request


class Quiet:
    """Until when a busy server (429) asked one of the process's clients to wait. Safe from any thread."""

    def __init__(self) -> None:
        self._until = 0.0

    def ask(self, seconds: float) -> None:
        """The server asked for this many seconds from now on."""
        self._until = max(self._until, time.monotonic() + seconds)

    def left(self) -> float:
        """Seconds that are left, 0 or less where calls are welcome."""
        return self._until - time.monotonic()


@dataclass(frozen=True)
class Connection:
    """One way to reach one API server."""

    server: str
    """`https://host:port`."""
    tls: ssl.SSLContext = field(repr=False)
    namespace: str
    """The namespace of the pod, or of the kubeconfig's context."""
    auth: BearerAuth | None = field(default=None, repr=False)
    quiet: Quiet = field(default_factory=Quiet, repr=False, compare=False)
    """Shared by everything that uses this connection, kopf's watches too."""
    agent: str = "serval-live-operator"
    """User agent: what the API server's audit log calls us."""


@dataclass(frozen=True)
class WatchPace:
    """Limits of the watches, in seconds."""

    silence: float = 70.0
    """Without an event or a bookmark for this long a watch is dead."""
    life: int = 50
    """After this the API server ends a watch in order, with a bookmark, and it is begun again: with the token as it is
    then, since a token that was replaced may be refused a minute and a half later."""
    request: float = 30.0
    """For a page of the list that comes before a watch."""
    connect: float = 5.0
    """For TCP and TLS."""


class TokenFileAuth(BearerAuth):
    """Bearer token from a file that somebody else replaces. Safe from any thread: a read too many does no harm."""

    def __init__(
        self, file: Path, clock: Callable[[], float] = time.monotonic, life: float = TOKEN_LIFE
    ) -> None:
        self._file = file
        self._clock = clock
        self._life = life
        self._token = ""
        self._read_at = float("-inf")

    def bearer(self) -> str:
        if self._clock() - self._read_at > self._life:
            self._token = self._file.read_text().strip()
            self._read_at = self._clock()
        return self._token

    def refused(self) -> None:
        self._read_at = float("-inf")


class TokenAuth(BearerAuth):
    """Bearer token that stays the same."""

    def __init__(self, token: str) -> None:
        self._token = token

    def bearer(self) -> str:
        return self._token


def connect(environment: Mapping[str, str] | None = None, token_life: float = TOKEN_LIFE) -> Connection:
    """By KUBECONFIG if set, else as a pod, else by ~/.kube/config. Raises UsageError if none of them is there.

    `token_life` in seconds: how long a token that was read from a file is used before the file is read again.
    """
    variables = os.environ if environment is None else environment
    if variables.get("KUBECONFIG"):
        return from_kubeconfig(Path(variables["KUBECONFIG"].split(os.pathsep)[0]), token_life)
    if variables.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(variables, token_life=token_life)
    usual = Path.home() / ".kube" / "config"
    if usual.exists():
        return from_kubeconfig(usual, token_life)
    raise UsageError("no Kubernetes API: neither KUBECONFIG, nor a service account, nor ~/.kube/config")


def in_cluster(
    variables: Mapping[str, str], folder: Path = SERVICE_ACCOUNT, token_life: float = TOKEN_LIFE
) -> Connection:
    """As the service account of the pod."""
    host, port = variables["KUBERNETES_SERVICE_HOST"], variables.get("KUBERNETES_SERVICE_PORT", "443")
    if not (folder / "token").exists():
        raise UsageError(f"{folder}/token is missing: does the pod set automountServiceAccountToken: false?")
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=ssl.create_default_context(cafile=str(folder / "ca.crt")),
        namespace=(folder / "namespace").read_text().strip(),
        auth=TokenFileAuth(folder / "token", life=token_life),
    )


def from_kubeconfig(file: Path, token_life: float = TOKEN_LIFE) -> Connection:
    """The current context of a kubeconfig: certificates or tokens, in the file or beside it."""
    try:
        content = yaml.safe_load(file.read_text())
        context = _named(content, "contexts", content["current-context"])["context"]
        cluster = _named(content, "clusters", context["cluster"])["cluster"]
        user = _named(content, "users", context["user"])["user"]
        server = str(cluster["server"])
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise UsageError(f"kubeconfig {file} can't be used: {type(error).__name__} {error}") from error
    if "exec" in user or "auth-provider" in user:
        raise UsageError(f"kubeconfig {file}: user plugins are not run; use a token or a client certificate")
    return Connection(
        server=server.rstrip("/"),
        tls=_tls(file.parent, cluster, user),
        namespace=str(context.get("namespace") or "default"),
        auth=_auth(file.parent, user, token_life),
    )


def _named(content: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    for entry in content[section]:
        if entry["name"] == name:
            found: Mapping[str, Any] = entry
            return found
    raise KeyError(f"{section} has no {name!r}")


def _auth(folder: Path, user: Mapping[str, Any], token_life: float) -> BearerAuth | None:
    if user.get("token"):
        return TokenAuth(str(user["token"]))
    if user.get("tokenFile"):
        return TokenFileAuth(folder / str(user["tokenFile"]), life=token_life)
    return None


def _tls(folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _material(folder, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = (_material(folder, user, name) for name in ("client-certificate", "client-key"))
    if certificate and key:
        # The ssl module takes client certificates from files only.
        with tempfile.TemporaryDirectory() as place:
            pair = Path(place) / "client.pem"
            pair.touch(mode=0o600)
            pair.write_bytes(certificate + b"\n" + key)
            context.load_cert_chain(str(pair))
    return context


def _material(folder: Path, section: Mapping[str, Any], name: str) -> bytes | None:
    if section.get(f"{name}-data"):
        return base64.b64decode(section[f"{name}-data"])
    if section.get(name):
        return (folder / str(section[name])).read_bytes()
    return None
