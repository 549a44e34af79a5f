"""Command line: `serve` runs a stand-in; every other verb drives a running one through its control paths.

python -m tests.support.serval serve --listen 127.0.0.1:8200 --state /tmp/serval.json --bucket models
python -m tests.support.serval engine add --state /tmp/serval.json --source en --target es
python -m tests.support.serval build run ENGINE --state /tmp/serval.json --archive model.tar.gz
"""

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import httpx

from tests.support.serval.archives import Bucket
from tests.support.serval.control import OWNER
from tests.support.serval.gate import ADMIN_PREFIX
from tests.support.serval.settings import Settings
from tests.support.serval.standin import ServalStandIn
from tests.support.serval.verbs import VERBS, Param, Verb

URL_VARIABLE = "SERVAL_STANDIN_URL"
CALL_LIMIT = 600.0
"""Seconds for one verb: an archive of several GB may be on its way into the bucket."""


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: 0 done, 1 refused by the stand-in (serve: address taken), 2 wrong usage, 3 not reachable."""
    options = _parser().parse_args(arguments)
    if options.verb is None:
        return serve(options)
    return call(options)


def serve(options: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM. Prints one JSON line with the URL and an API key once it listens."""
    host, port = options.listen
    settings = Settings(host=host, port=port, long_poll_timeout=options.long_poll_timeout)
    serval = ServalStandIn(settings, _bucket(options))
    try:
        serval.up()
    except OSError as error:
        print(f"cannot listen on {host}:{port}: {error.strerror}", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with serval:
        facts = {
            "url": serval.url,
            "owner": options.owner,
            "apiKey": serval.add_key(options.owner),
            "pid": os.getpid(),
        }
        if options.state is not None:
            _write_private(options.state, json.dumps(facts))
        print(json.dumps(facts), flush=True)
        try:
            stop.wait()
        finally:
            if options.state is not None:
                options.state.unlink(missing_ok=True)
    return 0


def call(options: argparse.Namespace) -> int:
    """Run one verb on the stand-in that --url, --state or the environment names, and print its answer."""
    verb: Verb = options.verb
    url = _url(options)
    if url is None:
        print(f"say where the stand-in is: --url, --state or {URL_VARIABLE}", file=sys.stderr)
        return 2
    given = {param.name: getattr(options, param.name) for param in verb.params}
    if given.get("archive") not in (None, "empty"):
        given["archive"] = str(Path(given["archive"]).resolve())
    body = {name: value for name, value in given.items() if value is not None}
    try:
        answer = httpx.post(f"{url}{ADMIN_PREFIX}/{verb.group}/{verb.name}", json=body, timeout=CALL_LIMIT)
    except httpx.TransportError as error:
        print(f"no stand-in at {url}: {error}", file=sys.stderr)
        return 3
    result = answer.json()
    if answer.is_error:
        print(result["error"], file=sys.stderr)
        return 1
    print(json.dumps(result, indent=2, ensure_ascii=False))
    return 0


def _url(options: argparse.Namespace) -> str | None:
    if options.url is not None:
        return str(options.url)
    if options.state_file is not None:
        return str(json.loads(options.state_file.read_text())["url"])
    return os.environ.get(URL_VARIABLE)


def _bucket(options: argparse.Namespace) -> Bucket | None:
    if options.bucket is None:
        return None
    return Bucket(
        name=options.bucket,
        endpoint=options.s3_endpoint,
        folder=options.folder,
        region=options.s3_region,
        access_key=os.environ.get("AWS_ACCESS_KEY_ID"),
        secret_key=os.environ.get("AWS_SECRET_ACCESS_KEY"),
        public_endpoint=options.s3_public_endpoint,
    )


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise argparse.ArgumentTypeError(f"'{text}' is not HOST:PORT")
    return host, int(port)


def _write_private(path: Path, text: str) -> None:
    """The file holds a key: readable by its owner alone from the first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.serval",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    groups = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_serve(groups.add_parser("serve", help="run a stand-in in the foreground"))
    for group in dict.fromkeys(verb.group for verb in VERBS):
        members = [verb for verb in VERBS if verb.group == group]
        names = ", ".join(verb.name for verb in members)
        inner = groups.add_parser(group, help=names).add_subparsers(required=True, metavar="VERB")
        for verb in members:
            _add_verb(inner.add_parser(verb.name, help=verb.help, description=verb.help), verb)
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    where = "address to listen on (default 127.0.0.1:8200); port 0 takes a free one"
    add("--listen", type=_address, default="127.0.0.1:8200", metavar="HOST:PORT", help=where)
    add(
        "--state",
        type=Path,
        metavar="FILE",
        help="write URL and API key there; other verbs take the same --state",
    )
    add("--owner", default=OWNER, help=f"owner of the API key that is minted at start (default {OWNER})")
    add("--bucket", help="bucket for models; without it no engine's model can be downloaded")
    add("--folder", default="stand-in", help="folder in the bucket (default stand-in)")
    add("--s3-endpoint", help="S3 server; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    add("--s3-public-endpoint", help="S3 address for download URLs, where callers need another one")
    add("--s3-region", default="us-east-1", help="region in signatures (default us-east-1)")
    add("--long-poll-timeout", type=float, default=Settings.long_poll_timeout, help="seconds (default 40)")
    parser.set_defaults(verb=None)


def _add_verb(parser: argparse.ArgumentParser, verb: Verb) -> None:
    parser.add_argument("--url", help=f"base URL of the stand-in (default ${URL_VARIABLE})")
    parser.add_argument(
        "--state", type=Path, metavar="FILE", dest="state_file", help="what serve --state wrote"
    )
    for param in verb.params:
        _add_param(parser, param)
    parser.set_defaults(verb=verb)


def _add_param(parser: argparse.ArgumentParser, param: Param) -> None:
    extra: dict[str, Any] = {"help": param.help}
    if param.kind is bool:
        extra.update(action=argparse.BooleanOptionalAction)
    else:
        extra.update(type=param.kind)
    if param.many:
        extra.update(nargs="+")
    if param.required:
        parser.add_argument(param.name, **extra)
    else:
        parser.add_argument(f"--{param.name}", dest=param.name, default=param.default, **extra)
