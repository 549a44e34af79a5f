"""What can be done to a running stand-in from outside: one list for the control paths and for the command line.

Each verb is `group name`, its parameters, and a function on the control surface. A parameter arrives as JSON or as a
command-line argument; the list says its type and whether it may be left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.serval.archives import EMPTY_ARCHIVE, Archive
from tests.support.serval.control import ANY, OWNER, EngineSpec
from tests.support.serval.domain import Build, Ending, Engine, EngineType, JobState
from tests.support.serval.errors import RuleBroken
from tests.support.serval.faults import Answer, Match
from tests.support.serval.rendering import build_json, engine_json

if TYPE_CHECKING:
    from tests.support.serval.standin import ServalStandIn

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Param:
    """One argument. Positional on the command line if `required`; a bool becomes a flag pair."""

    name: str
    help: str
    kind: type = str
    required: bool = False
    default: object = None
    many: bool = False


@dataclass(frozen=True)
class Verb:
    """One thing to do; `run` returns what is printed as JSON (None: nothing)."""

    group: str
    name: str
    help: str
    run: "Callable[[ServalStandIn, Arguments], object]"
    params: tuple[Param, ...] = ()

    def checked(self, given: Arguments) -> dict[str, Any]:
        """The arguments with defaults. Raises RuleBroken for missing, unknown or wrongly typed ones."""
        known = {param.name: param for param in self.params}
        unknown = sorted(set(given) - set(known))
        missing = [name for name, param in known.items() if param.required and given.get(name) is None]
        if unknown or missing:
            raise RuleBroken(f"{self.group} {self.name}: unknown {unknown}, missing {missing}")
        values = {}
        for name, param in known.items():
            value = given.get(name, param.default)
            kinds = (list,) if param.many else (int, float) if param.kind is float else (param.kind,)
            if value is not None and not isinstance(value, kinds):
                raise RuleBroken(f"{self.group} {self.name}: {name} must be {param.kind.__name__}")
            values[name] = value
        return values


ENGINE = Param("engine", "engine id", required=True)
BUILD = Param("build", "build id", required=True)
OWNER_PARAM = Param("owner", f"owner name (default {OWNER})", default=OWNER)
ARCHIVE = Param("archive", "model archive to store as revision R+1: a .tar.gz path, or 'empty'")
MATCH = (
    Param("path", "regular expression on path?query (default: everything)", default=""),
    Param("method", "HTTP verb"),
    Param("times", "end after so many requests", int),
    Param("for", "end after so many seconds", float),
)
AFTER = Param("after", "seconds that the request runs before", float, default=0.0)


def _archive(given: Arguments) -> Archive | None:
    text = given["archive"]
    return None if text is None else EMPTY_ARCHIVE if text == "empty" else Path(text)


def _match(given: Arguments) -> Match:
    return Match(given["path"], given["method"], given["times"], given["for"])


def _ending(given: Arguments) -> Ending:
    return Ending(JobState(given["ending"].capitalize()), given["message"])


def _engine(serval: "ServalStandIn", engine: Engine) -> dict[str, Any]:
    building = serval.backend.world.is_building(engine.id)
    return {**engine_json(engine, is_building=building), "owner": engine.owner}


def _build(serval: "ServalStandIn", build: Build) -> dict[str, Any]:
    return build_json(build, serval.backend.settings.deployment_version)


def _add_engine(serval: "ServalStandIn", given: Arguments) -> object:
    spec = EngineSpec(**{**given, "type": EngineType.parse(given["type"])})
    return _engine(serval, serval.add_engine(spec))


def _finish_build(serval: "ServalStandIn", given: Arguments) -> object:
    if given["uncommitted"]:
        return _build(serval, serval.finish_uncommitted(given["engine"], _archive(given)))
    return _build(serval, serval.finish_build(given["engine"], _archive(given), _ending(given)))


def _run_build(serval: "ServalStandIn", given: Arguments) -> object:
    return _build(serval, serval.run_build(given["engine"], _archive(given), _ending(given)))


def _run_in_gap(serval: "ServalStandIn", given: Arguments) -> None:
    serval.in_gap(lambda: serval.run_build(given["engine"], _archive(given), _ending(given)))


def _together(serval: "ServalStandIn", given: Arguments) -> object:
    return [_build(serval, build) for build in serval.finish_together(dict.fromkeys(given["engines"]))]


def _add_client(serval: "ServalStandIn", given: Arguments) -> object:
    client = serval.add_client(given["owner"])
    return {"clientId": client.id, "clientSecret": client.secret, "owner": client.owner}


def _put_model(serval: "ServalStandIn", given: Arguments) -> object:
    archive = _archive(given)
    if archive is None:
        raise RuleBroken("model put: an archive is required")
    return {"key": serval.archives.upload(given["engine"], given["revision"], archive)}


def _add_fault(serval: "ServalStandIn", given: Arguments) -> None:
    answer = Answer(given["status"], given["body"], given["content-type"], given["retry-after"])
    serval.break_with(answer, _match(given), given["after"])


def _state(serval: "ServalStandIn", _given: Arguments) -> object:
    world = serval.backend.world
    with world.lock:
        engines, builds = list(world.engines.values()), list(world.builds.values())
    return {
        "engines": [_engine(serval, engine) for engine in engines],
        "builds": [{**_build(serval, build), "owner": build.owner} for build in builds],
        "openPolls": serval.open_polls,
    }


_ENDING = (
    Param("ending", "Completed (default), Faulted or Canceled", default="Completed"),
    Param("message", "the build's message"),
)
_PUT = (ENGINE, Param("revision", "revision number", int, required=True))

VERBS: tuple[Verb, ...] = (
    Verb("key", "add", "mint an API key", lambda s, g: {"key": s.add_key(g["owner"])}, (OWNER_PARAM,)),
    Verb("client", "add", "make a client id and secret for /oauth/token", _add_client, (OWNER_PARAM,)),
    Verb("token", "reject", "answer 401 to every token issued so far", lambda s, _: s.reject_tokens()),
    Verb(
        "engine", "add", "add an engine", _add_engine,
        (
            OWNER_PARAM,
            Param("source", "source tag (default en)", default="en"),
            Param("target", "target tag (default es)", default="es"),
            Param("type", "nmt (default), smt-transfer or echo", default="nmt"),
            Param("persisted", "isModelPersisted", bool, default=True),
            Param("revision", "builds in the past", int, default=0),
            Param("name", "display name"),
            Param("id", "24 hex digits (default: a new id)"),
        ),
    ),
    Verb("engine", "delete", "delete an engine and its builds", lambda s, g: s.delete_engine(g["engine"]), (ENGINE,)),
    Verb(
        "engine", "list", "all engines of all owners",
        lambda s, _: [_engine(s, e) for e in list(s.backend.world.engines.values())],
    ),
    Verb("build", "start", "start a build", lambda s, g: _build(s, s.start_build(g["engine"])), (ENGINE,)),
    Verb("build", "activate", "its training runs", lambda s, g: _build(s, s.activate_build(g["engine"])), (ENGINE,)),
    Verb(
        "build", "progress", "report progress",
        lambda s, g: _build(s, s.progress_build(g["engine"], g["progress"])),
        (ENGINE, Param("progress", "0 to 1", float, required=True)),
    ),
    Verb("build", "restart", "back to Pending", lambda s, g: _build(s, s.restart_build(g["engine"])), (ENGINE,)),
    Verb(
        "build", "finish", "end the running build", _finish_build,
        (ENGINE, ARCHIVE, *_ENDING, Param("uncommitted", "leave the transaction open", bool, default=False)),
    ),
    Verb("build", "commit", "end the open transaction", lambda s, g: _build(s, s.commit_build(g["build"])), (BUILD,)),
    Verb("build", "run", "start, activate and finish", _run_build, (ENGINE, ARCHIVE, *_ENDING)),
    Verb("build", "run-in-gap", "run after the next long poll ended", _run_in_gap, (ENGINE, ARCHIVE, *_ENDING)),
    Verb(
        "build", "finish-together", "end several in one batch", _together,
        (Param("engines", "engine ids", required=True, many=True),),
    ),
    Verb("model", "put", "store an archive under any revision", _put_model, (*_PUT, ARCHIVE)),
    Verb("model", "remove", "delete one archive", lambda s, g: s.archives.remove(g["engine"], g["revision"]), _PUT),
    Verb("model", "list", "keys below models/", lambda s, _: s.archives.keys()),
    Verb("model", "cleanup", "run Serval's cleanup now", lambda s, _: s.clean_up()),
    Verb(
        "fault", "answer", "answer with a status", _add_fault,
        (
            Param("status", "HTTP status", int, required=True),
            *MATCH, AFTER,
            Param("body", "body text"),
            Param("content-type", "of the body", default="application/json"),
            Param("retry-after", "seconds", int),
        ),
    ),
    Verb(
        "fault", "reset", "cut connections",
        lambda s, g: _quiet(s.reset_connections(_match(g), g["after"])), (*MATCH, AFTER),
    ),
    Verb(
        "fault", "delay", "hold requests back", lambda s, g: _quiet(s.delay(g["seconds"], _match(g))),
        (Param("seconds", "how long", float, required=True), *MATCH),
    ),
    Verb(
        "fault", "short-lists", "shorten engine lists", lambda s, g: s.shorten_lists(g["keep"], g["times"]),
        (Param("keep", "engines left", int, required=True), Param("times", "lists", int, default=1)),
    ),
    Verb("fault", "cut-polls", "reset waiting requests", lambda s, _: {"cut": s.cut_polls()}),
    Verb("fault", "clear", "everything works again", lambda s, _: s.mend()),
    Verb("server", "down", "cut every API request", lambda s, _: _quiet(s.reset_connections(ANY))),
    Verb("server", "up", "end all faults", lambda s, _: s.mend()),
    Verb(
        "server", "configure", "change settings",
        lambda s, g: s.configure(**{name.replace("-", "_"): v for name, v in g.items() if v is not None}),
        (
            Param("long-poll-timeout", "seconds until 408", float),
            Param("request-timeout", "seconds until 499", float),
            Param("foreign-builds-leak", "min-revision reads any build", bool),
        ),
    ),
    Verb(
        "clock", "step", "let the clock jump", lambda s, g: s.clock.step(g["seconds"]),
        (Param("seconds", "negative: backwards", float, required=True),),
    ),
    Verb("show", "state", "engines, builds, open polls", _state),
    Verb("show", "requests", "finished API requests", lambda s, _: [asdict(entry) for entry in s.requests()]),
)  # fmt: skip


def _quiet(_result: object) -> None:
    return None
