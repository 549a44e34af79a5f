"""`engine-operator`: run the operator, or look at what it would do.

    engine-operator run        the operator itself
    engine-operator check      which engines of a Serval account can be served, and why not
    engine-operator plan       what one sweep would do; changes nothing
    engine-operator doctor     what this cluster and its sources lack
    engine-operator reasons    what each reason in a condition means

Exit codes: 0 good, 1 a finding or a defect, 2 a setting or flag, 3 Serval, 4 the store, 5 the Kubernetes API.
"""

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_operator.errors import OperatorError

DESCRIPTION = "Serves the NLLB engines of Serval live on KServe."

EPILOG = f"""Settings of run and plan are read from the environment, SERVAL_LIVE_OPERATOR_ and the field's name;
see docs/operator.md. The cluster is the one of KUBECONFIG, of the pod's service account, or of ~/.kube/config.
{(__doc__ or "").strip().splitlines()[-1]}"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="engine-operator",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="the operator itself; runs until SIGTERM")
    _namespaces(run)
    run.add_argument("--health-port", type=int, help="port of /livez, /readyz and /metrics (default 8080)")
    check = commands.add_parser(
        "check",
        help="list every engine of a Serval account: servable or not, and why",
        description="Needs no cluster. Ends with 1 if no engine can be served.",
    )
    check.add_argument("--url", required=True, help="Serval's base address, e.g. https://prod.serval-api.org")
    _credentials(check)
    _output(check)
    plan = commands.add_parser("plan", help="print what one sweep would do; changes nothing")
    _namespaces(plan)
    _output(plan)
    doctor = commands.add_parser("doctor", help="say what this cluster and its sources lack")
    _namespaces(doctor)
    reasons = commands.add_parser("reasons", help="explain the reasons that conditions and Events show")
    reasons.add_argument("reason", nargs="?", help="one reason; all without it")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        return asyncio.run(_command(options))
    except OperatorError as error:
        print(f"engine-operator: {error.reason}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


async def _command(options: argparse.Namespace) -> int:
    # Each command imports what it needs: `check` should not wait for kopf and boto3.
    if options.command == "reasons":
        return _reasons(options.reason)
    if options.command == "check":
        from engine_operator.commands.check import CredentialFiles, check

        files = CredentialFiles(
            api_key=options.api_key_file,
            client_id=options.client_id_file,
            client_secret=options.client_secret_file,
            token_url=options.token_url,
            audience=options.audience,
        )
        return await check(options.url, files.auth(), options.output)
    return await _with_cluster(options)


async def _with_cluster(options: argparse.Namespace) -> int:
    from engine_operator.cluster.connection import TOKEN_LIFE, connect
    from engine_operator.settings import Settings

    namespaces = tuple(options.namespace) if options.namespace else None
    settings = Settings.load(namespaces=namespaces, health_port=getattr(options, "health_port", None))
    configure_logging(settings.log_level, settings.log_format)
    connection = connect(token_life=settings.seconds(TOKEN_LIFE, 0.5))
    if options.command == "run":
        from engine_operator.loops.process import serve

        await serve(settings, connection, asyncio.Event())
        return 0
    if options.command == "plan":
        from engine_operator.commands.plan import plan_all

        return await plan_all(settings, connection, options.output)
    from engine_operator.commands.doctor import doctor

    return await doctor(settings, connection)


def _reasons(wanted: str | None) -> int:
    from engine_operator.domain.reasons import ENTRIES

    found = [entry for entry in ENTRIES if wanted in (None, entry.reason)]
    for entry in found:
        print(f"{entry.reason} ({entry.where})\n    {entry.text}")
    if not found:
        print(f"engine-operator: there is no reason {wanted!r}", file=sys.stderr)
    return 0 if found else 2


def _namespaces(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--namespace",
        action="append",
        metavar="NAME",
        help="namespace to work in, may be repeated (default: the pod's or the context's own)",
    )


def _credentials(command: argparse.ArgumentParser) -> None:
    """Files rather than values: a command line is read by everybody on the machine."""
    group = command.add_argument_group(
        "credentials",
        "An API key, or a client of the identity provider; scope read:translation_engines is enough.",
    )
    group.add_argument(
        "--api-key-file", type=Path, metavar="FILE", help="file with an API key of the account"
    )
    group.add_argument("--client-id-file", type=Path, metavar="FILE", help="file with a client id")
    group.add_argument(
        "--client-secret-file", type=Path, metavar="FILE", help="file with that client's secret"
    )
    group.add_argument(
        "--token-url", metavar="URL", help="address that gives out tokens, https://…/oauth/token"
    )
    group.add_argument("--audience", help="for whom tokens are asked (default https://serval-api.org/)")


def _output(command: argparse.ArgumentParser) -> None:
    command.add_argument("--output", choices=("text", "json"), default="text", help="default: text")


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_logging(level: str, form: str) -> None:
    """Log to stderr. Libraries that log requests, and with them addresses that are secrets, are kept to warnings."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "botocore", "boto3", "urllib3", "s3transfer", "kopf", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
