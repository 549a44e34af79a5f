"""Configuration of the programs of the node: containerd, CNI, kubelet, kube-proxy. Pure: text from settings."""

import json
from pathlib import Path
from typing import Any

import yaml

from devcluster.network import BRIDGE
from devcluster.settings import Settings

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "dev.local/serval-live/pause:1"


def containerd(settings: Settings) -> str:
    """containerd with its usual folders (the node's own /var and /run) and no reach for what hosts may lack."""
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.opt",
]

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
disable_apparmor = true
disable_hugetlb_controller = true
# A machine may forbid to lower oom scores; runc then dies without a useful word.
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{settings.state}/etc/cni"
"""


def cni(settings: Settings) -> str:
    """Pods on one bridge; the node has the first address, pods the rest."""
    ranges = [[{"subnet": settings.pod_range, "gateway": settings.node_address}]]
    bridge: dict[str, Any] = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "0.4.0", "name": settings.node_name, "plugins": plugins}, indent=2)


def kubelet(settings: Settings, pki: Path) -> str:
    """A kubelet that never evicts, never collects images (there is no registry to fetch them again)."""
    no_eviction = {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"}
    content = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": settings.node_address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{settings.cgroup}",
        "clusterDNS": [settings.dns_address],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "enforceNodeAllocatable": [],
        "evictionHard": no_eviction,
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "localStorageCapacityIsolation": False,
        # The default of -999 needs a right that the machine may not give.
        "oomScoreAdj": 0,
        "resolvConf": f"{settings.state}/etc/resolv.conf",
        # Mounted ConfigMaps and Secrets follow within seconds, not a minute.
        "syncFrequency": "10s",
        "tlsCertFile": f"{pki}/kubelet.crt",
        "tlsPrivateKeyFile": f"{pki}/kubelet.key",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
    }
    return yaml.safe_dump(content, sort_keys=False)


def kube_proxy(settings: Settings, kubeconfig: Path, *, bridge_filtered: bool) -> str:
    """iptables mode. Conntrack limits are the whole machine's, so they are left alone (0).

    Where the kernel does not show bridged packets to iptables, the answer of a pod on the same bridge would miss its
    translation, so there all calls of Services take the node's address as their source.
    """
    content = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": settings.node_address,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": settings.pod_range,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
        "healthzBindAddress": "127.0.0.1:10256",
        "hostnameOverride": settings.node_name,
        "iptables": {"masqueradeAll": not bridge_filtered, "syncPeriod": "30s", "minSyncPeriod": "0s"},
        "metricsBindAddress": "127.0.0.1:10249",
        "mode": "iptables",
        "oomScoreAdj": 0,
    }
    return yaml.safe_dump(content, sort_keys=False)
