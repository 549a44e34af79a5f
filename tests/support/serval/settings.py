"""Every number and switch of the stand-in, so that tests can shorten what Serval makes long."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How one stand-in behaves; the defaults are Serval's own values."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """0 takes a free port once and keeps it over down and up."""
    long_poll_timeout: float = 40.0
    """Seconds until a waiting request answers 408 (Serval: `Api:LongPollTimeout`)."""
    request_timeout: float = 58.0
    """Seconds until any request is cut with 499 (Serval: `Api:DefaultHttpRequestTimeout`)."""
    token_lifetime: float = 86400.0
    """Seconds that an issued token stays valid, as its `expires_in` says."""
    presigned_lifetime: float = 3600.0
    """Seconds that a model download URL stays valid."""
    audience: str = "https://serval-api.org/"
    """What a token must be meant for."""
    issuer: str = "https://stand-in.auth.test/"
    """Who must have issued a token; the token end point of the stand-in does."""
    deployment_version: str = "1.20.0"
    """Shown by `deployment-info` and on each build."""
    foreign_builds_leak: bool = False
    """Serval answers a build read with `min-revision` without checking whose build it is; True does the same."""
    seed: int = 7
    """Seed of the order of lists, which Serval leaves undefined."""
