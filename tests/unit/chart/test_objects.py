"""What the chart installs: rights, users, reach, and what survives."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from engine_operator.cluster import knative
from engine_operator.settings import Settings
from tests.unit.chart.conftest import ROOT, Object, Render

API = ("--api-versions", "serval-live.dev/v1alpha1")


def pod_of(deployment: Object) -> dict[str, Any]:
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def keys_of(value: Any) -> Iterator[str]:
    """Every key of an object, at any depth."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield key
            yield from keys_of(below)
    elif isinstance(value, list):
        for item in value:
            yield from keys_of(item)


def test_g3_no_user_or_group_is_named_anywhere(render: Render) -> None:
    objects = render({}).objects
    assert objects
    named = {
        key for found in objects if found["kind"] != "CustomResourceDefinition" for key in keys_of(found)
    }
    assert named & {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"} == set()


def test_g3_an_overlay_can_take_a_default_of_the_security_context_away(render: Render) -> None:
    pod = pod_of(render({"podSecurityContext": {"seccompProfile": None}}).one("Deployment"))
    assert pod["securityContext"] == {"runAsNonRoot": True}


def test_operator_meets_the_restricted_pod_security_standard(render: Render) -> None:
    pod = pod_of(render({}).one("Deployment"))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {key for volume in pod["volumes"] for key in volume if key != "name"} == {"emptyDir"}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert container["livenessProbe"]
        assert container["readinessProbe"]


def test_g11_no_right_reaches_secrets_outside_the_watched_namespaces(render: Render) -> None:
    rendering = render({"watchNamespaces": ["ruth", "jonah"]})
    reach = {
        role["metadata"].get("namespace", "*")
        for role in rendering.of("Role") + rendering.of("ClusterRole")
        for rule in role["rules"]
        if "secrets" in rule["resources"]
    }
    assert reach == {"ruth", "jonah"}
    for role in rendering.of("Role"):
        for rule in role["rules"]:
            if "secrets" in rule["resources"]:
                assert not {"list", "watch", "*"} & set(rule["verbs"])


def test_g11_no_rule_grants_everything(render: Render) -> None:
    rendering = render({})
    rules = [rule for role in rendering.of("Role") + rendering.of("ClusterRole") for rule in role["rules"]]
    assert len(rules) >= 10
    for rule in rules:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], rule


def test_knative_settings_are_readable_by_name_only(render: Render) -> None:
    (role,) = [role for role in render({}).of("Role") if role["metadata"]["namespace"] == "knative-serving"]
    (rule,) = role["rules"]
    assert rule["verbs"] == ["get"]
    read = set(re.findall(r'"(config-[a-z]+)"', inspect.getsource(knative)))
    assert len(read) >= 4
    assert set(rule["resourceNames"]) == read


def test_a14_without_the_cluster_id_nothing_but_definitions_is_cluster_wide(render: Render) -> None:
    objects = render({"rbac": {"readClusterId": False}}).objects
    assert {found["kind"] for found in objects if "namespace" not in found["metadata"]} == {
        "CustomResourceDefinition"
    }


def test_the_only_cluster_wide_right_is_to_read_kube_system(render: Render) -> None:
    (role,) = render({}).of("ClusterRole")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]}
    ]


def test_every_binding_names_a_role_that_exists_and_the_operator(render: Render) -> None:
    rendering = render({"watchNamespaces": ["ruth", "jonah"]})
    roles = {(r["kind"], r["metadata"].get("namespace"), r["metadata"]["name"]) for r in rendering.of("Role")}
    roles |= {("ClusterRole", None, r["metadata"]["name"]) for r in rendering.of("ClusterRole")}
    bindings = rendering.of("RoleBinding") + rendering.of("ClusterRoleBinding")
    bound = {(b["roleRef"]["kind"], b["metadata"].get("namespace"), b["roleRef"]["name"]) for b in bindings}
    assert bound == roles
    operator = {"kind": "ServiceAccount", "name": "serval-live", "namespace": "serval-live"}
    assert all(binding["subjects"] == [operator] for binding in bindings)
    assert rendering.one("ServiceAccount")["metadata"]["namespace"] == "serval-live"


def test_workloads_get_no_token(render: Render) -> None:
    accounts = render({"watchNamespaces": ["ruth", "jonah"]}).of("ServiceAccount")
    workload = [account for account in accounts if account["metadata"]["name"] == "serval-live-workload"]
    assert {account["metadata"]["namespace"] for account in workload} == {"ruth", "jonah"}
    assert all(account["automountServiceAccountToken"] is False for account in accounts)


def test_e3_one_list_of_pull_secrets_reaches_every_pod(render: Render) -> None:
    rendering = render({"imagePullSecrets": [{"name": "one"}, {"name": "two"}]})
    wanted = [{"name": "one"}, {"name": "two"}]
    assert pod_of(rendering.one("Deployment"))["imagePullSecrets"] == wanted
    assert all(account["imagePullSecrets"] == wanted for account in rendering.of("ServiceAccount"))
    env = pod_of(rendering.one("Deployment"))["containers"][0]["env"]
    assert {"one,two"} == {item["value"] for item in env if item["name"].endswith("IMAGE_PULL_SECRETS")}


def test_who_may_reach_a_predictor_pod(render: Render) -> None:
    policy = render({}).one("NetworkPolicy", "serval-live-predictors")
    (rule,) = policy["spec"]["ingress"]
    operator, client, data_plane = rule["from"]
    assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "serval-live"}
    assert (
        operator["podSelector"]["matchLabels"].items()
        <= render({}).one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    )
    assert client["podSelector"]["matchLabels"] == {"serval-live.dev/engine-client": "true"}
    assert client["namespaceSelector"]["matchExpressions"][0]["values"] == ["serval-live"]
    assert data_plane["namespaceSelector"]["matchExpressions"][0]["values"] == [
        "knative-serving",
        "kourier-system",
    ]


def selects(policy: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a policy is for a pod with these labels."""
    rules = policy["spec"]["podSelector"]["matchExpressions"]
    return all((rule["key"] in labels) == (rule["operator"] == "Exists") for rule in rules)


def test_predictor_pods_of_both_modes_are_guarded_and_those_of_jobs_have_a_policy_of_their_own(
    render: Render,
) -> None:
    """Only Knative labels a pod with its revision, only Kubernetes' Job controller with the name of its Job."""
    policy = render({}).one("NetworkPolicy", "serval-live-predictors")
    engine = {"serval-live.dev/engine": "e1"}
    assert selects(policy, engine)
    assert selects(policy, {**engine, "serving.knative.dev/revision": "e1-predictor-00001"})
    assert not selects(policy, {**engine, "batch.kubernetes.io/job-name": "e1-r1"})
    assert not selects(policy, {"app": "web"})


def test_no_namespace_that_nobody_named_may_call_a_predictor_pod(render: Render) -> None:
    values = {"watchNamespaces": ["ruth"], "networkPolicy": {"clientNamespaces": ["web"]}}
    policy = render(values).one("NetworkPolicy", "serval-live-predictors")
    selectors = [peer["namespaceSelector"] for rule in policy["spec"]["ingress"] for peer in rule["from"]]
    assert len(selectors) == 3
    assert {} not in selectors
    named = [one["matchExpressions"][0]["values"] for one in selectors if "matchExpressions" in one]
    assert ["web"] in named


def test_nobody_reaches_a_conversion_pod(render: Render) -> None:
    policy = render({}).one("NetworkPolicy", "serval-live-conversions")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert "ingress" not in policy["spec"]


def test_g1_definitions_survive_uninstall_unless_asked_otherwise(render: Render) -> None:
    kept = render({}).of("CustomResourceDefinition")
    assert len(kept) == 2
    assert all(found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for found in kept)
    loose = render({"crds": {"keep": False}}).of("CustomResourceDefinition")
    assert len(loose) == 2
    assert not any("helm.sh/resource-policy" in found["metadata"].get("annotations", {}) for found in loose)
    assert render({"crds": {"enabled": False}}).of("CustomResourceDefinition") == []


def test_g1_the_chart_installs_exactly_the_operators_definitions(render: Render) -> None:
    wanted = [
        yaml.safe_load(file.read_text()) for file in (ROOT / "operator/engine_operator/crds").glob("*.yaml")
    ]
    made = render({"crds": {"keep": False}}).of("CustomResourceDefinition")
    by_name = {found["metadata"]["name"]: found for found in made}
    assert by_name == {found["metadata"]["name"]: found for found in wanted}


def identities(objects: list[Object]) -> set[tuple[str, str, str]]:
    return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects}


def test_g2_releases_of_one_name_in_two_namespaces_share_nothing_but_definitions(render: Render) -> None:
    first = identities(render({}, namespace="ruth").objects)
    second = identities(render({"crds": {"enabled": False}}, namespace="jonah").objects)
    assert first & second == set()


def test_g2_a_second_release_in_one_namespace_meets_an_object_of_the_first(render: Render) -> None:
    first = identities(render({}, release="one").objects)
    second = identities(render({"crds": {"enabled": False}}, release="two").objects)
    # Helm refuses to take an object over that another release owns: one operator for a namespace.
    assert ("ServiceAccount", "serval-live", "serval-live-workload") in first & second


def test_g4_one_replica_never_blocks_a_drain(render: Render) -> None:
    assert render({}).of("PodDisruptionBudget") == []


def test_images_are_taken_by_digest_where_one_is_given(render: Render) -> None:
    digest = "sha256:" + "a" * 64
    values = {"image": {"digest": digest, "tag": "ignored"}, "predictor": {"image": {"tag": "v7"}}}
    container = pod_of(render(values).one("Deployment"))["containers"][0]
    assert container["image"] == f"registry.example.org/operator@{digest}"
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert env["SERVAL_LIVE_OPERATOR_CONVERTER_IMAGE"] == "registry.example.org/predictor:v7"
    assert env["SERVAL_LIVE_OPERATOR_RUNTIME_IMAGE_CPU"] == "registry.example.org/predictor:v7"
    assert "SERVAL_LIVE_OPERATOR_RUNTIME_IMAGE_GPU" not in env


def test_the_operator_starts_with_the_environment_that_the_chart_gives_it(render: Render) -> None:
    values = {
        "watchNamespaces": ["ruth", "jonah"],
        "imagePullSecrets": [{"name": "registry"}],
        "predictor": {"gpuImage": {"repository": "registry.example.org/gpu"}},
        "extraEnv": {"SERVAL_LIVE_OPERATOR_SWEEP_EVERY": "60", "SERVAL_LIVE_OPERATOR_MAX_ROLLING": "5"},
    }
    container = pod_of(render(values).one("Deployment"))["containers"][0]
    settings = Settings.load({item["name"]: item["value"] for item in container["env"]})
    settings.require_images()
    assert settings.namespaces == ("ruth", "jonah")
    assert settings.image_pull_secrets == ("registry",)
    assert settings.runtime_image_gpu == "registry.example.org/gpu:0.1.0"
    assert (settings.sweep_every, settings.max_rolling) == (60.0, 5)
    accounts = [account["metadata"]["name"] for account in render(values).of("ServiceAccount")]
    assert accounts.count(settings.workload_service_account) == 2
    assert pod_of(render(values).one("Deployment"))["enableServiceLinks"] is False
    assert settings.health_port == container["ports"][0]["containerPort"]


def test_a4_the_lease_is_one_that_the_operator_may_hold(render: Render) -> None:
    rendering = render({"watchNamespaces": ["ruth", "jonah"]})
    container = pod_of(rendering.one("Deployment"))["containers"][0]
    settings = Settings.load({item["name"]: item["value"] for item in container["env"]})
    role = rendering.one("Role", "serval-live-lease")
    assert role["metadata"]["namespace"] == settings.namespaces[0]
    named = {name: set(rule["verbs"]) for rule in role["rules"] for name in rule.get("resourceNames", [])}
    assert named == {settings.lease_name: {"get", "update"}}


SPEC = {
    "url": "https://serval.example.org",
    "credentialsSecretRef": {"name": "serval-key"},
    "artifactStore": {"uri": "s3://bucket/live", "secretRef": {"name": "store"}},
}


def test_a_source_waits_for_the_definitions_and_says_how(render: Render) -> None:
    complaint = render({"source": {"create": True, "spec": SPEC}}).complaint
    assert "Install once with source.create=false" in complaint
    made = render({"source": {"create": True, "spec": SPEC}, "watchNamespaces": ["ruth", "jonah"]}, *API)
    source = made.one("ServalSource", "serval")
    assert source["metadata"]["namespace"] == "ruth"
    assert source["spec"] == SPEC


def test_a_service_monitor_needs_the_service(render: Render) -> None:
    values = {"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}}
    assert "metrics.serviceMonitor.enabled needs metrics.service.enabled" in render(values).complaint


@pytest.mark.parametrize("namespace", ["a", "serval-live"])
def test_long_release_names_stay_within_a_label(render: Render, namespace: str) -> None:
    rendering = render(
        {}, release="a-very-long-release-name-of-fifty-three-characters-xx", namespace=namespace
    )
    assert all(len(found["metadata"]["name"]) <= 63 for found in rendering.objects)
