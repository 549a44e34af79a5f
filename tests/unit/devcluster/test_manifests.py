"""How upstream's install manifests are changed, against small manifests of the same shape."""

import base64
import json
from typing import Any

import yaml
from cryptography import x509

from devcluster import manifests, own_manifests
from devcluster.certificates import Authority
from devcluster.manifests import Images

IMAGES = Images(
    {
        "knative-activator": "dev.local/activator:1",
        "knative-queue": "dev.local/queue:1",
        "kourier": "dev.local/kourier:1",
        "envoy": "dev.local/envoy:1",
        "kserve-manager": "dev.local/manager:1",
        "coredns": "dev.local/coredns:1",
        "versitygw": "dev.local/versitygw:1",
    }
)


def objects(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def deployment(name: str, containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def container_of(each: dict[str, Any]) -> dict[str, Any]:
    (container,) = each["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_each_image_reference_becomes_the_local_image_of_the_same_program() -> None:
    references = {
        "ko://knative.dev/serving/cmd/activator": "dev.local/activator:1",
        "ko://knative.dev/net-kourier/cmd/kourier": "dev.local/kourier:1",
        "docker.io/envoyproxy/envoy:v1.36-latest": "dev.local/envoy:1",
        "kserve/kserve-controller:latest": "dev.local/manager:1",
        "example.com/other:2": "example.com/other:2",
    }
    assert {each: IMAGES.for_reference(each) for each in references} == references


def test_the_queue_image_is_replaced_where_it_stands_in_a_config_map() -> None:
    config = objects(
        "{kind: ConfigMap, metadata: {name: c}, data: {queue-sidecar-image: 'ko://knative.dev/serving/cmd/queue'}}"
    )
    (fitted,) = manifests.fit(config, IMAGES)
    assert fitted["data"]["queue-sidecar-image"] == "dev.local/queue:1"


def test_nothing_that_needs_a_metrics_server_is_installed() -> None:
    given = objects(
        "kind: HorizontalPodAutoscaler\n---\nkind: PodDisruptionBudget\n---\n{kind: Service, spec: {}}"
    )
    assert [each["kind"] for each in manifests.fit(given, IMAGES)] == ["Service"]


def test_requests_are_small_and_limits_are_gone() -> None:
    heavy = {"requests": {"cpu": "300m"}, "limits": {"cpu": "1"}}
    given = deployment("activator", [{"image": "ko://knative.dev/serving/cmd/activator", "resources": heavy}])
    resources = container_of(manifests.fit([given], IMAGES)[0])["resources"]
    assert set(resources) == {"requests"}
    assert resources["requests"]["cpu"] == "10m"


def test_the_given_manifests_stay_as_they_were() -> None:
    given = deployment("activator", [{"image": "ko://knative.dev/serving/cmd/activator"}])
    before = json.dumps(given)
    manifests.fit([given], IMAGES)
    assert json.dumps(given) == before


def test_knative_gets_the_settings_that_our_services_rely_on() -> None:
    given = objects("{apiVersion: v1, kind: ConfigMap, metadata: {name: config-autoscaler}, data: {a: b}}")
    (fitted,) = manifests.knative(given, IMAGES)
    assert fitted["data"]["allow-zero-initial-scale"] == "true"
    assert fitted["data"]["a"] == "b"
    assert manifests.KNATIVE_SETTINGS["config-deployment"]["pod-is-always-schedulable"] == "true"
    assert manifests.KNATIVE_SETTINGS["config-domain"] == {"example.com": ""}


def test_envoy_arguments_are_split_as_a_shell_would() -> None:
    gateway = deployment(
        "3scale-kourier-gateway",
        [
            {
                "image": "docker.io/envoyproxy/envoy:v1.36-latest",
                "args": ["--base-id 1", "-c /tmp/config/envoy-bootstrap.yaml"],
                "readinessProbe": {},
                "lifecycle": {"preStop": {}},
            }
        ],
    )
    container = container_of(manifests.kourier([gateway], IMAGES)[0])
    assert container["args"] == ["--base-id", "1", "-c", "/tmp/config/envoy-bootstrap.yaml"]
    assert container["image"] == "dev.local/envoy:1"
    assert "lifecycle" not in container


def kserve_objects() -> list[dict[str, Any]]:
    manager = {
        "name": "manager",
        "image": "kserve/kserve-controller:latest",
        "args": ["--leader-elect"],
        "readinessProbe": {},
    }
    proxy = {"name": "kube-rbac-proxy", "image": "elsewhere/kube-rbac-proxy:v0"}
    return [
        {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "serving-cert"}},
        {"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "selfsigned-issuer"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kserve-webhook-server-cert"}},
        deployment("kserve-controller-manager", [manager, proxy]),
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "v"},
            "webhooks": [{"clientConfig": {"service": {}}}, {"clientConfig": {"service": {}}}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "inferenceservice-config"},
            "data": {"ingress": '{"ingressDomain": "example.com", "disableIstioVirtualHost": false}'},
        },
    ]


def test_kserve_comes_without_cert_manager_and_side_container() -> None:
    fitted = manifests.kserve(kserve_objects(), IMAGES, Authority.create())
    assert not [each for each in fitted if "cert-manager" in each["apiVersion"]]
    (manager,) = [each for each in fitted if each["kind"] == "Deployment"]
    assert container_of(manager)["name"] == "manager"
    assert "--leader-elect" not in container_of(manager)["args"]


def test_kserve_webhooks_trust_the_authority_that_signed_their_certificate() -> None:
    fitted = manifests.kserve(kserve_objects(), IMAGES, Authority.create())
    (secret,) = [each for each in fitted if each["kind"] == "Secret"]
    (hooks,) = [each for each in fitted if each["kind"] == "ValidatingWebhookConfiguration"]
    served = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    for hook in hooks["webhooks"]:
        trusted = x509.load_pem_x509_certificate(base64.b64decode(hook["clientConfig"]["caBundle"]))
        served.verify_directly_issued_by(trusted)
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kserve-webhook-server-service.kserve.svc" in names.get_values_for_type(x509.DNSName)


def test_kserve_makes_no_istio_services() -> None:
    fitted = manifests.kserve(kserve_objects(), IMAGES, Authority.create())
    (settings,) = [each for each in fitted if each["kind"] == "ConfigMap"]
    ingress = json.loads(settings["data"]["ingress"])
    assert ingress == {"ingressDomain": "example.com", "disableIstioVirtualHost": True}


def test_the_s3_server_has_its_keys_only_in_a_secret() -> None:
    parts = own_manifests.s3(IMAGES, "the-access-key", "the-secret-key")
    (secret,) = [each for each in parts if each["kind"] == "Secret"]
    rest = json.dumps([each for each in parts if each is not secret])
    assert secret["stringData"] == {
        "AWS_ACCESS_KEY_ID": "the-access-key",
        "AWS_SECRET_ACCESS_KEY": "the-secret-key",
    }
    assert "the-access-key" not in rest
    assert "the-secret-key" not in rest


def test_every_service_selects_the_pods_of_its_deployment() -> None:
    for parts in (own_manifests.s3(IMAGES, "a", "s"), own_manifests.core_dns(IMAGES, "10.96.0.10")):
        (service,) = [each for each in parts if each["kind"] == "Service"]
        (workload,) = [each for each in parts if each["kind"] == "Deployment"]
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        assert service["metadata"]["namespace"] == workload["metadata"]["namespace"]
