"""Can the artifact store be used? Answers with the one exact thing that people must provide.

Reads Secrets as given and never guesses spellings silently: a key that differs only by case or hyphens is named,
because that is how such settings go wrong.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from engine_operator.errors import StoreMisconfigured
from engine_operator.headers import fits_header
from engine_operator.store.address import S3, StoreKeys
from engine_operator.store.artifacts import ArtifactStore
from engine_operator.store.owner import OWNER, Owner, claim

ACCESS_KEY = "AWS_ACCESS_KEY_ID"
SECRET_KEY = "AWS_SECRET_ACCESS_KEY"
SESSION_TOKEN = "AWS_SESSION_TOKEN"
CA_KEY = "ca.crt"


def secret_values(secret: Mapping[str, Any]) -> dict[str, str]:
    """Decoded values of a Secret object; values that are no text are left out."""
    values: dict[str, str] = {}
    for key, encoded in (secret.get("data") or {}).items():
        try:
            values[key] = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    return values


def store_keys(name: str, secret: Mapping[str, Any] | None) -> StoreKeys:
    """S3 credentials from a Secret. Raises StoreMisconfigured that names Secret and key."""
    if secret is None:
        raise StoreMisconfigured(
            f"Secret {name!r} does not exist; it needs the keys {ACCESS_KEY} and {SECRET_KEY}"
        )
    values = secret_values(secret)
    return StoreKeys(
        access_key=required(name, values, ACCESS_KEY),
        secret_key=required(name, values, SECRET_KEY),
        session_token=required(name, values, SESSION_TOKEN) if values.get(SESSION_TOKEN) else None,
    )


def required(secret: str, values: Mapping[str, str], key: str) -> str:
    """One value of a Secret, without surrounding white space. Raises StoreMisconfigured."""
    value = values.get(key, "").strip()
    if value and key != CA_KEY and not fits_header(value):
        # The S3 library would put what it cannot send into its error.
        raise StoreMisconfigured(
            f"Secret {secret!r}: the value of {key} has line breaks or other odd characters"
        )
    if value:
        return value
    if key in values:
        raise StoreMisconfigured(f"Secret {secret!r}: the value of {key} is empty")
    alike = [found for found in values if _plain(found) == _plain(key)]
    hint = f"; it has {alike[0]!r}, which must be spelled {key}" if alike else f"; it has {sorted(values)}"
    raise StoreMisconfigured(f"Secret {secret!r} lacks the key {key}{hint}")


def refuse_misplaced_endpoint(name: str, secret: Mapping[str, Any]) -> None:
    """KServe takes a store's address from annotations of the Secret, and ignores misspelled ones without a word.

    Raises StoreMisconfigured where one would be lost on us; for AWS itself there is nothing to lose.
    """
    for key, value in ((secret.get("metadata") or {}).get("annotations") or {}).items():
        if not _plain(key).endswith("s3endpoint") or "amazonaws.com" in str(value):
            continue
        raise StoreMisconfigured(
            f"Secret {name!r} has the annotation {key!r}, which is KServe's and not read here: "
            f"set artifactStore.endpoint to the store's address, such as http://{value}"
        )


async def preflight(store: ArtifactStore, owner: Owner, readers: S3 | None, now: datetime) -> bool:
    """Prove that we may write, and that predictors may read what we wrote. Raises StoreError.

    Returns whether the folder is ours alone, so that garbage may be looked for in it.
    """
    alone = await claim(store, owner, now)
    if readers is not None:
        await ArtifactStore(readers, store.installation).read(OWNER)
    return alone


def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())
