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
    rules = [
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
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
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    account = {"kind": "ServiceAccount", **place}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "system:coredns"}, "rules": rules},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": role,
            "subjects": [account],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"Corefile": _COREFILE}},
        deployment("coredns", "kube-system", labels, pod),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
            "spec": {"selector": labels, "clusterIP": address, "ports": ports},
        },
    ]


def s3(images: Images, access_key: str, secret_key: str) -> list[Manifest]:
    """versitygw over a folder of the node, as Service s3.s3.svc.cluster.local:9000, path style."""
    labels = {"app.kubernetes.io/name": "s3"}
    credentials = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}

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
    return [
        namespace(S3_NAMESPACE),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": S3_SECRET, "namespace": S3_NAMESPACE},
            "stringData": credentials,
        },
        deployment("s3", S3_NAMESPACE, labels, pod),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s3", "namespace": S3_NAMESPACE},
            "spec": {"selector": labels, "ports": [{"name": "http", "port": S3_PORT}]},
        },
    ]


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
