"""Every setting of the operator: meaning, unit, default, and why.

Read once, at the start: a flag, else the environment (`SERVAL_LIVE_OPERATOR_` and the field's name in capitals), else
the default. A variable of that prefix that names no field is refused, since a misspelled setting would be silent.
All waits are in seconds and are multiplied by `time_factor`, down to bounds that others set.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Self

from engine_operator.cluster.client import Limits
from engine_operator.cluster.connection import WatchPace
from engine_operator.cluster.lease import LeaseTiming
from engine_operator.cluster.resources import REVISIONS, Resource
from engine_operator.domain.backoff import Backoff
from engine_operator.domain.budget import WakeBudget
from engine_operator.domain.deletion import DeletionRule
from engine_operator.domain.mode import Autoscaler, DeploymentMode, ServingMode
from engine_operator.domain.own_identity import IdentityGrant, grants_of
from engine_operator.domain.policy import Policy
from engine_operator.errors import UsageError
from engine_operator.serval.events import PollPolicy
from engine_operator.store.address import Patience

PREFIX = "SERVAL_LIVE_OPERATOR_"

SERVICE_LINK = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""Kubernetes puts these into pods for every Service of the namespace, and one may be called serval-live-operator."""


@dataclass(frozen=True)
class Settings:
    """One process's settings."""

    converter_image: str = ""
    """Image of conversion Jobs, by digest or fixed tag. No default: nobody publishes images for you."""

    runtime_image_cpu: str = ""
    """Predictor image of profile `cpu`. No default, as above."""

    runtime_image_gpu: str = ""
    """Predictor image of profile `gpu`; where it is empty, that of profile `cpu`."""

    workload_service_account: str = ""
    """ServiceAccount of Jobs and predictors, without a token in either; empty: the namespace's `default`."""

    own_identity_stores: tuple[str, ...] = ()
    """Stores that may be opened with the operator's own cloud identity where they name no Secret, comma-separated, each
    `namespace=s3://bucket/folder`. Empty: none, or whoever writes a ServalSource acts with the operator's rights."""

    image_pull_secrets: tuple[str, ...] = ()
    """Secrets for Jobs and predictors, comma-separated; the same that the operator itself was pulled with."""

    namespaces: tuple[str, ...] = ()
    """Namespaces to work in, comma-separated. Empty: the operator's own. Nothing ever crosses a namespace."""

    lease_name: str = "serval-live-operator"
    """Lease in the first namespace; two releases that work in the same namespace must share it."""

    identity: str = field(default_factory=socket.gethostname)
    """Who holds the Lease: the pod's name. A random suffix keeps restarts of one pod apart."""

    health_host: str = "0.0.0.0"
    """Address of `/livez`, `/readyz` and `/metrics`; kubelet and Prometheus come from other hosts."""

    health_port: int = 8080
    """Port of the same; 0 takes a free one."""

    knative_namespace: str = "knative-serving"
    """Where Knative's settings are; read where a Role allows it."""

    sweep_every: float = 180.0
    """Between two sweeps of a source. A sweep alone finds everything; events only make it quick."""

    settle: float = 3.0
    """From an event to a second sweep: Serval may commit a nearly simultaneous build a little later."""

    follow_every: float = 2.0
    """Between two looks at an engine that is converting or rolling out; Pods and Revisions are not watched."""

    collect_every: float = 3600.0
    """Between two listings of an engine's artifacts for garbage."""

    manifest_trust: float = 900.0
    """How long a manifest that was seen is believed to be there still: a person may have deleted it. Then an engine at
    rest is looked at too: one read of the store and five of the API, for 1,000 engines about one engine a second."""

    knative_every: float = 3600.0
    """Between two readings of Knative's settings."""

    status_every: float = 3600.0
    """A ServalSource's status is written at least this often while its times move on."""

    long_poll_timeout: float = 65.0
    """Client limit of `next-finished`; Serval holds it 40 s and cuts at 58 s."""

    watch_silence: float = 70.0
    """A watch without event or bookmark for this long is dead, whatever its connection says, and is begun again. The
    API server sends a bookmark every 60 s, and remembers for 75 s what the dead one missed."""

    deletion_grace: float = 600.0
    """Least time between the two 404s that prove an engine's deletion."""

    max_rolling: int = 3
    """Engines that roll out at once: each wakes a pod, perhaps a node."""

    max_converting: int = 3
    """Conversion Jobs at once."""

    parallel_engines: int = 8
    """Engines looked at side by side: enough to hide the store's latency, too few to trouble the API."""

    source_bytes: int = 2_600_000_000
    """Bytes of the largest model that is converted; memory, disk and time of conversions follow. The 600M model's."""

    escalation: float = 2.0
    """A conversion without enough memory or disk is tried once more, for a model so many times larger; 1: it is not."""

    deployment_mode: str = "Knative"
    """How KServe runs all engines: `Knative`, or `Standard`, as plain Deployments. KServe lets no engine change."""

    standard_autoscaler: str = "hpa"
    """Standard mode: `hpa`, or `keda` where KEDA is installed."""

    keda_prometheus: str = ""
    """Standard mode with KEDA: address of the Prometheus to ask. Empty: KEDA goes by CPU, and no engine may sleep."""

    keda_query: str = ""
    """Standard mode with KEDA: the query; `{namespace}` and `{engine}` are filled in. It must count calls that wait for
    an engine without a pod, or nobody wakes it."""

    time_factor: float = 1.0
    """Multiplies every wait; tests use 1/30."""

    log_format: str = "text"
    """`text` or `json` (one object a line)."""

    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`."""

    def __post_init__(self) -> None:
        if self.time_factor <= 0:
            raise UsageError(f"time_factor must be above 0, not {self.time_factor}")
        if self.deployment_mode not in set(DeploymentMode):
            raise UsageError(f"deployment_mode is Knative or Standard, not {self.deployment_mode!r}")
        if self.standard_autoscaler not in set(Autoscaler):
            raise UsageError(f"standard_autoscaler is hpa or keda, not {self.standard_autoscaler!r}")
        if self.log_format not in ("text", "json"):
            raise UsageError(f"log_format is text or json, not {self.log_format!r}")
        self.identity_grants()

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None, **flags: Any) -> Self:
        """Flags that are not None over the environment over the defaults. Raises UsageError."""
        variables = os.environ if environment is None else environment
        known = {PREFIX + one.name.upper(): one for one in fields(cls)}
        given: dict[str, Any] = {}
        for name, text in variables.items():
            if not name.startswith(PREFIX) or _is_service_link(name, text):
                continue
            if name not in known:
                raise UsageError(f"{name} is no setting; there are: {', '.join(sorted(known))}")
            given[known[name].name] = _parse(name, known[name], text)
        given.update({name: value for name, value in flags.items() if value is not None})
        return cls(**given)

    def require_images(self) -> None:
        """Refuse to start without the images that Jobs and predictors need."""
        missing = [name for name in ("converter_image", "runtime_image_cpu") if not getattr(self, name)]
        if missing:
            names = ", ".join(PREFIX + name.upper() for name in missing)
            raise UsageError(f"{names} must be set to images that your cluster can pull")

    def seconds(self, wait: float, at_least: float = 0.0) -> float:
        """A wait in this process's time."""
        return max(at_least, wait * self.time_factor)

    def policy(self) -> Policy:
        """The numbers of the decisions."""
        scale = self.time_factor
        plain, budget, rule = Policy(self.converter_image), WakeBudget(), DeletionRule()
        return Policy(
            converter_image=self.converter_image,
            backoff=_scaled(plain.backoff, scale),
            rollout_backoff=_scaled(plain.rollout_backoff, scale),
            budget=WakeBudget(
                node_boot=budget.node_boot * scale,
                image_pull=budget.image_pull * scale,
                download=budget.download * scale,
                load=budget.load * scale,
                margin=budget.margin * scale,
            ),
            deletion=DeletionRule(
                grace=timedelta(seconds=self.deletion_grace * scale), guard_window=rule.guard_window * scale
            ),
            max_rolling=self.max_rolling,
            max_converting=self.max_converting,
            auto_swap_after=plain.auto_swap_after * scale,
            source_url_lifetime=plain.source_url_lifetime * scale,
            stale_attempt_age=plain.stale_attempt_age * scale,
            assumed_source_bytes=self.source_bytes,
            escalation=self.escalation,
            image_pull_secrets=self.image_pull_secrets,
            mode=ServingMode(
                DeploymentMode(self.deployment_mode),
                Autoscaler(self.standard_autoscaler),
                self.keda_prometheus,
                self.keda_query,
            ),
            workload_service_account=self.workload_service_account,
        )

    def may_lack(self) -> frozenset[Resource]:
        """Kinds that the cluster may be without in this mode."""
        standard = self.deployment_mode == DeploymentMode.STANDARD
        return frozenset({REVISIONS}) if standard else frozenset()

    def poll_policy(self) -> PollPolicy:
        """The waits of the poll loop."""
        plain = PollPolicy()
        return PollPolicy(
            prompt=plain.prompt,
            settle=self.seconds(self.settle, 0.5),
            search=self.seconds(plain.search, 0.2),
            first_retry=self.seconds(plain.first_retry, 0.1),
            longest_retry=self.seconds(plain.longest_retry, 1.0),
            refused_retry=self.seconds(plain.refused_retry, 1.0),
            trust=self.seconds(plain.trust, 1.0),
        )

    def lease_timing(self) -> LeaseTiming:
        """The Lease's waits; the bounds leave a slow API server time for three tries."""
        plain = LeaseTiming()
        return LeaseTiming(
            duration=self.seconds(plain.duration, 6.0),
            renew_every=self.seconds(plain.renew_every, 1.0),
            renew_deadline=self.seconds(plain.renew_deadline, 4.0),
            look_every=self.seconds(plain.look_every, 0.3),
        )

    def watch_pace(self) -> WatchPace:
        """The watches' limits."""
        return WatchPace(silence=self.watch_silence)  # Unscaled: bookmarks come by the API server's clock.

    def identity_grants(self) -> tuple[IdentityGrant, ...]:
        """Stores that may be used without a Secret. Raises UsageError."""
        return grants_of(self.own_identity_stores)

    def limits(self) -> Limits:
        """The API client's limits: a write that outlived our lead would be somebody else's surprise."""
        timing = self.lease_timing()
        return Limits(write_timeout=timing.duration - timing.renew_deadline)

    def patience(self) -> Patience:
        """The store's time limits."""
        plain = Patience()
        return Patience(
            connect=self.seconds(plain.connect, 1.0),
            read=self.seconds(plain.read, 2.0),
            whole=self.seconds(plain.whole, 5.0),
        )


def _scaled(backoff: Backoff, scale: float) -> Backoff:
    """Delays in this process's time; shorter than a second would only hammer."""
    first = max(backoff.first * scale, timedelta(seconds=1))
    return replace(backoff, first=first, cap=max(backoff.cap * scale, first))


def _is_service_link(name: str, value: str) -> bool:
    """A bare `…_PORT` is one only with an address in it; else it is a setting of ours, perhaps a misspelled one."""
    link = SERVICE_LINK.search(name)
    return link is not None and (link[0] != "_PORT" or "://" in value)


def _parse(name: str, one: "Field[Any]", text: str) -> Any:
    try:
        if one.type is int:
            return int(text)
        if one.type is float:
            return _number(text)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"{name}={text!r} is no number") from error
    if one.type == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _number(text: str) -> float:
    """`0.5` or `1/30`."""
    above, _, below = text.partition("/")
    return float(above) / float(below) if below else float(above)
