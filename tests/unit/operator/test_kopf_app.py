"""The wiring to kopf: what it watches, and that it can write nothing."""

import itertools
from collections.abc import Awaitable, Callable, Iterable
from typing import cast

import kopf
import pytest

from engine_operator import kopf_app
from engine_operator.cluster.connection import WatchPace
from engine_operator.errors import UsageError
from engine_operator.loops.inbox import EngineKey, Inbox, SourceKey
from tests.support.cases import case


def annotating_registry(inbox: Inbox) -> kopf.OperatorRegistry:
    """A registry with a handler of changes: kopf then keeps its progress in annotations of the object."""
    handlers = kopf.OperatorRegistry()
    kopf.on.update("serving.kserve.io", "v1beta1", "inferenceservices", registry=handlers)(lambda **_: None)
    return handlers


@case("A9", breaks="engine_operator.kopf_app:registry", naive=annotating_registry)
def test_a9_no_handler_makes_kopf_annotate_or_hold_an_object() -> None:
    registry = kopf_app.registry(Inbox())
    assert registry._changing.get_all_handlers() == []
    assert registry._spawning.get_all_handlers() == []
    assert registry._indexing.get_all_handlers() == []
    assert len(registry._watching.get_all_handlers()) == 4


def settings_of_kopf(_: WatchPace) -> kopf.OperatorSettings:
    """What kopf does by itself: peers, posts, looks for kinds; ends after nine tries."""
    return kopf.OperatorSettings()


@case("A4", breaks="engine_operator.kopf_app:settings", naive=settings_of_kopf)
def test_a4_kopf_neither_peers_nor_posts_and_watches_only_what_is_ours() -> None:
    settings = kopf_app.settings(WatchPace())
    assert settings.peering.standalone
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert sorted(settings.watching.label_selectors.values()) == ["serval-live.dev/engine"] * 2


@case("A1", breaks="engine_operator.kopf_app:settings", naive=settings_of_kopf)
def test_a1_a_silent_watch_is_given_up_while_the_api_server_still_knows_what_it_missed() -> None:
    settings = kopf_app.settings(WatchPace())
    assert 60 < settings.watching.inactivity_timeout < 75, (
        "after a bookmark was due, before events are forgotten"
    )
    assert kopf_app.settings(WatchPace(silence=2.5)).watching.inactivity_timeout == 2.5
    tries = itertools.islice(iter(cast(Iterable[float], settings.networking.error_backoffs)), 1000)
    assert max(tries) <= 8, "an API server that is back is noticed soon, however long it was away"
    assert not hasattr(settings.networking.error_backoffs, "__len__"), "there is no last try"


@case("A1", breaks="engine_operator.kopf_app:require_versions")
@pytest.mark.parametrize(("python", "kopf_version"), [((3, 10, 4), "1.45.2"), ((3, 11, 7), "1.43.0")])
def test_a1_versions_that_never_notice_a_dead_watch_are_refused(
    python: tuple[int, ...], kopf_version: str
) -> None:
    with pytest.raises(UsageError, match=r"needed are Python 3\.11 and kopf 1\.44"):
        kopf_app.require_versions(python, kopf_version)
    kopf_app.require_versions((3, 11, 0), "1.44.0")


async def test_every_event_only_touches_a_key() -> None:
    inbox = Inbox()
    registry = kopf_app.registry(inbox)
    labels, meta = {"serval-live.dev/engine": "e1"}, {"uid": "u1", "resourceVersion": "7"}
    for handler in registry._watching.get_all_handlers():
        touch = cast(Callable[..., Awaitable[None]], handler.fn)
        await touch(namespace="ns", name="x", labels=labels, meta=meta, type="MODIFIED")
    assert await inbox.wait_engines(0) == {EngineKey("ns", "x"), EngineKey("ns", "e1")}
    assert await inbox.wait_sources(0) == {SourceKey("ns", "x")}
    assert await inbox.wait_engines(0) == set()
