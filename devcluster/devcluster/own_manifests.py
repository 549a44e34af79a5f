"""Manifests of what has none upstream that would fit: CoreDNS and the S3 server. Pure."""

from typing import Any

from devcluster.manifests import Images, Manifest, namespace

_COREFILE = """cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 5
    }
    cache 5
    loadbalance
}
# There is no way out, so every other name is answered at once: it doesn't exist. A zone of its own, since inside one
# zone `template` always comes before `kubernetes`.
.:53 {
    errors
    template ANY ANY {
        rcode NXDOMAIN
    }
}
"""

S3_NAMESPACE = "s3"
S3_SECRET = "s3-credentials"
S3_PORT = 9000
S3_REGION = "us-east-1"
_S3_FOLDER = "/data"


def core_dns(images: Images, address: str) -> list[Manifest]:
    """CoreDNS as `kube-dns` in kube-system, at the address that every resolv.conf names."""
    labels = {"k8s-app": "kube-dns"}
    place = {"name": "coredns", "namespace": "kube-system"}
    container = {
        "name": "coredns",
        "image": images["coredns"],
        "args": ["-conf", "/etc/coredns/Corefile"],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "failureThreshold": 5},
        "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    ports = [
        {"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
        "spec": {"selector": labels, "clusterIP": address, "ports": ports},
    }
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"Corefile": _COREFILE}}
    return [*_core_dns_rights(place), settings, deployment("coredns", "kube-system", labels, pod), service]


def _core_dns_rights(place: dict[str, str]) -> list[Manifest]:
    """An account that may follow services and their endpoints."""
    group, name = "rbac.authorization.k8s.io", "system:coredns"
    core, verbs = ["endpoints", "services", "pods", "namespaces"], ["list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": core, "verbs": verbs},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
    ]
    role = {"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", **place}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place}
    return [account, *({"apiVersion": f"{group}/v1", **each} for each in (role, binding))]


def s3(images: Images, access_key: str, secret_key: str) -> list[Manifest]:
    """versitygw over a folder of the node, as Service s3.s3.svc.cluster.local:9000, path style."""
    labels = {"app.kubernetes.io/name": "s3"}

    def from_secret(variable: str, key: str) -> Manifest:
        return {"name": variable, "valueFrom": {"secretKeyRef": {"name": S3_SECRET, "key": key}}}

    container = {
        "name": "versitygw",
        "image": images["versitygw"],
        "args": [f"--port=:{S3_PORT}", f"--region={S3_REGION}", "--health=/health", "posix", _S3_FOLDER],
        "env": [
            from_secret("ROOT_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
            from_secret("ROOT_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
        ],
        "ports": [{"containerPort": S3_PORT}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": S3_PORT}, "periodSeconds": 1},
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "data", "mountPath": _S3_FOLDER}],
    }
    # A folder of the node, so that objects outlive the pod; it goes with the cluster.
    volume = {"name": "data", "hostPath": {"path": "/var/lib/s3", "type": "DirectoryOrCreate"}}
    pod = {"containers": [container], "volumes": [volume], "automountServiceAccountToken": False}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": S3_SECRET, "namespace": S3_NAMESPACE},
        "stringData": {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s3", "namespace": S3_NAMESPACE},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": S3_PORT}]},
    }
    return [namespace(S3_NAMESPACE), secret, deployment("s3", S3_NAMESPACE, labels, pod), service]


def deployment(name: str, where: str, labels: dict[str, str], pod: dict[str, Any]) -> Manifest:
    """A Deployment of one pod that is never doubled during a change."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": where},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
