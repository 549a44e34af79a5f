"""`engine-operator doctor`: what this cluster and these sources lack, each with what to do about it."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from engine_operator.cluster.client import ClusterClient
from engine_operator.cluster.connection import Connection
from engine_operator.cluster.crs import source_spec
from engine_operator.cluster.events import EventRecorder
from engine_operator.cluster.identity import ClusterIdentity
from engine_operator.cluster.knative import knative_settings
from engine_operator.cluster.resources import ENGINES, INFERENCE_SERVICES, REVISIONS, SERVAL_SOURCES
from engine_operator.commands.plan import refuse
from engine_operator.context import StoreBook
from engine_operator.domain.budget import TimeChain, WakeBudget, time_chain
from engine_operator.domain.effective import Defaults
from engine_operator.domain.names import DISCOVERED_LENGTH, LABEL_MAX, PREDICTOR, TAG, require_namespace
from engine_operator.domain.observed import KnativeSettings
from engine_operator.errors import OperatorError
from engine_operator.loops.sources import ServalClients, Sources, Tools
from engine_operator.serval.client import Timeouts
from engine_operator.settings import Settings


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `good` None: can't be told, or only advice."""

    good: bool | None
    what: str

    def __str__(self) -> str:
        mark = {True: "ok     ", False: "PROBLEM", None: "advice "}[self.good]
        return f"{mark}  {self.what}"


async def doctor(settings: Settings, connection: Connection) -> int:
    """Print all findings; 1 if there is a problem."""
    problems = 0
    async with ClusterClient(connection, guard=refuse, may_lack=settings.may_lack()) as cluster:
        for namespace in settings.namespaces or (connection.namespace,):
            async for finding in findings(settings, cluster, namespace):
                print(finding, flush=True)
                problems += finding.good is False
    print(f"\n{problems} problems" if problems else "\nNothing is missing.")
    return 1 if problems else 0


async def findings(settings: Settings, cluster: ClusterClient, namespace: str) -> AsyncIterator[Finding]:
    """Look at everything, in the order in which things build on each other."""
    try:
        require_namespace(namespace)
        yield Finding(True, f"namespace {namespace} leaves room for names")
    except OperatorError as error:
        yield Finding(False, str(error))
    needless = settings.may_lack()
    for resource in (SERVAL_SOURCES, ENGINES, INFERENCE_SERVICES, REVISIONS):
        if resource in needless:
            continue
        try:
            async for _ in cluster.list(resource, namespace):
                break
            yield Finding(True, f"{resource.plural}.{resource.group} can be listed")
        except OperatorError as error:
            yield Finding(False, f"{resource.plural}.{resource.group}: {error}")
            return
    if settings.policy().mode.standard:
        yield Finding(True, "engines run in KServe's Standard mode: no setting of Knative counts")
    else:
        knative = await knative_settings(cluster, settings.knative_namespace)
        for finding in knative_findings(knative, settings.knative_namespace):
            yield finding
        yield name_finding(knative, namespace)
    async for finding in _sources(settings, cluster, namespace):
        yield finding


def knative_findings(found: KnativeSettings, where: str) -> list[Finding]:
    """What Knative's settings, read in the namespace `where`, allow."""
    chain = time_chain(
        WakeBudget(),
        Defaults({}).scale_down_delay,
        Defaults({}).window,
        found.max_revision_timeout_seconds,
        found.response_start_seconds,
    )
    wishes = (
        (
            found.allow_zero_initial_scale,
            "config-autoscaler",
            "allow-zero-initial-scale",
            "one-GPU swaps and rollout.start: OnFirstCall",
        ),
        (
            found.pod_is_always_schedulable,
            "config-deployment",
            "pod-is-always-schedulable",
            "quiet wakes on a pool of nodes that comes and goes",
        ),
    )
    findings: list[Finding] = []
    for value, config_map, key, why in wishes:
        if value is None:
            findings.append(Finding(None, f"Knative's {key} can't be read; its default, false, is assumed"))
        elif value:
            findings.append(Finding(True, f"Knative's {key} is true"))
        else:
            patch = json.dumps({"data": {key: "true"}}, separators=(",", ":"))
            told = f"kubectl patch configmap {config_map} -n {where} --type merge -p '{patch}'"
            findings.append(Finding(None, f"{why} need: {told}"))
    return [
        *findings,
        *_time_out(found.max_revision_timeout_seconds, chain),
        _first_byte(found.response_start_seconds, chain),
    ]


def _time_out(cap: int | None, chain: TimeChain) -> list[Finding]:
    name = "Knative's max-revision-timeout-seconds"
    unread = [Finding(None, f"{name} can't be read; its default, 600, is assumed")] if cap is None else []
    if chain.cap_warning:
        return [*unread, Finding(None, chain.cap_warning)]
    wake = int(chain.wake.total_seconds())
    return [*unread, Finding(True, f"{name} is {cap}; a wake may take {wake} s")]


def _first_byte(start: int | None, chain: TimeChain) -> Finding:
    name = "Knative's revision-response-start-timeout-seconds"
    if start is None:
        return Finding(None, f"{name} can't be read; its default, 300, is assumed")
    if chain.start_warning:
        return Finding(None, chain.start_warning)
    return Finding(True, f"{name} is {start}; it cuts no call before its time-out")


def name_finding(found: KnativeSettings, namespace: str) -> Finding:
    """The arithmetic of names: what Knative's domain template makes of them, and how much of a DNS label that takes.

    Where the template keeps name and namespace apart there is more room, but it can be changed at any time, and names
    cannot: the operator always counts the joined form.
    """
    used = len(TAG) + DISCOVERED_LENGTH + len(PREDICTOR) + len(namespace)
    sum_ = (
        f"{TAG!r} {len(TAG)} + e<engine id> {DISCOVERED_LENGTH} + {PREDICTOR!r} {len(PREDICTOR)} + "
        f"{namespace!r} {len(namespace)} = {used} of {LABEL_MAX} characters"
    )
    if found.domain_template is None:
        told, good = "can't be read; one that joins name and namespace is assumed", None
    else:
        joins = (
            "joins name and namespace" if _joins(found.domain_template) else "keeps name and namespace apart"
        )
        told, good = f"{found.domain_template} {joins}", True
    return Finding(good if used <= LABEL_MAX else False, f"Knative's domain-template {told}; names: {sum_}")


def _joins(template: str) -> bool:
    """Whether a domain template puts name and namespace into one label: its first one, up to a dot outside braces."""
    first = re.split(r"\.(?![^{}]*\}\})", template)[0]
    return ".Namespace" in first and ".Name" in first.replace(".Namespace", "")


async def _sources(settings: Settings, cluster: ClusterClient, namespace: str) -> AsyncIterator[Finding]:
    tools = Tools(cluster, EventRecorder(cluster, "doctor"), Defaults({}), ClusterIdentity(cluster))
    clients = ServalClients(cluster, Timeouts())
    sources = Sources(
        tools, StoreBook(cluster, settings.patience(), False, settings.identity_grants()), clients, trust=60.0
    )
    try:
        async for item in cluster.list(SERVAL_SOURCES, namespace):
            source = source_spec(item)
            name = f"ServalSource {source.namespace}/{source.name}"
            state = await sources.storage(source)
            if state.problem is None:
                yield Finding(True, f"{name}: {source.artifact_store.uri}/{state.installation} can be read")
            else:
                yield Finding(False, f"{name}: {state.problem.reason}: {state.problem.message}")
            try:
                engines = await (await clients.client(source)).engines()
                yield Finding(True, f"{name}: Serval answers with {len(engines)} engines")
            except OperatorError as error:
                yield Finding(False, f"{name}: {error.reason}: {error}")
    finally:
        await clients.aclose()
