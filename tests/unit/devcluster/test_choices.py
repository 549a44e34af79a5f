"""Which cluster is meant, what a folder may be, and what configuration says."""

import json
import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from devcluster import backends, cli, host_packages, node_files, state, status
from devcluster.certificates import Authority, write_kubeconfig
from devcluster.errors import DevclusterError, HostUnfit, UsageError
from devcluster.settings import Settings
from devcluster.snapshot import Snapshots

OURS = Path("/cache/state/admin.kubeconfig")


@pytest.mark.parametrize(
    ("environment", "docker", "chosen"),
    [
        ({}, False, "source"),
        ({}, True, "kind"),
        ({"KUBECONFIG": "/home/me/.kube/config"}, True, "existing"),
        ({"KUBECONFIG": "/home/me/.kube/config"}, False, "existing"),
        ({"KUBECONFIG": str(OURS)}, True, "source"),
        ({"KUBECONFIG": "/home/me/.kube/config", "SERVAL_LIVE_BACKEND": "source"}, True, "source"),
        ({"KUBECONFIG": ""}, False, "source"),
    ],
)
def test_the_named_cluster_wins_then_docker_then_source(
    environment: dict[str, str], docker: bool, chosen: str
) -> None:
    assert backends.choose(environment, OURS, lambda: docker) == chosen


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(UsageError, match="podman"):
        backends.choose({"SERVAL_LIVE_BACKEND": "podman"}, OURS, lambda: False)


@pytest.mark.parametrize("folder", ["/var/cache/x", "/run/x", "/var"])
def test_a_cache_that_the_node_would_hide_is_refused(folder: str) -> None:
    with pytest.raises(HostUnfit, match="SERVAL_LIVE_CACHE"):
        Settings(cache=Path(folder))


def test_the_cache_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SERVAL_LIVE_CACHE", str(tmp_path / "here"))
    assert Settings().cache == tmp_path / "here"
    monkeypatch.delenv("SERVAL_LIVE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Settings().cache == tmp_path / "serval-live"


def test_containerd_never_lowers_an_oom_score(tmp_path: Path) -> None:
    text = tomllib.loads(node_files.containerd(Settings(cache=tmp_path)))
    assert text["plugins"]["io.containerd.grpc.v1.cri"]["restrict_oom_score_adj"] is True


def test_pods_get_addresses_of_the_bridge_that_the_node_is_on(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    bridge, _ = json.loads(node_files.cni(settings))["plugins"]
    assert bridge["ipam"]["ranges"][0][0] == {"subnet": settings.pod_range, "gateway": settings.node_address}


@pytest.mark.parametrize("filtered", [True, False])
def test_services_are_masqueraded_only_where_bridged_packets_bypass_iptables(
    tmp_path: Path, filtered: bool
) -> None:
    text = node_files.kube_proxy(Settings(cache=tmp_path), tmp_path / "k", bridge_filtered=filtered)
    assert yaml.safe_load(text)["iptables"]["masqueradeAll"] is not filtered


def test_a_client_certificate_names_user_and_groups(tmp_path: Path) -> None:
    authority = Authority.create()
    pair = authority.client("jane", ["readers", "writers"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    subject = certificate.subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    groups = [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    assert groups == ["readers", "writers"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pair.certificate))


def test_keys_and_kubeconfigs_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    authority = Authority.create()
    authority.pair.write(tmp_path, "ca")
    path = write_kubeconfig(tmp_path / "k", "https://127.0.0.1:1", authority, authority.client("x"))
    assert (tmp_path / "ca.key").stat().st_mode & 0o077 == 0
    assert path.stat().st_mode & 0o077 == 0


def test_a_snapshot_brings_back_files_without_logs(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    state.create(settings)
    (settings.state / "logs").mkdir()
    (settings.state / "logs/kubelet.log").write_text("noise", encoding="utf-8")
    (settings.state / "etcd").mkdir()
    (settings.state / "etcd/db").write_text("data", encoding="utf-8")
    snapshots = Snapshots(settings)
    snapshots.save("one")
    settings.state.rename(tmp_path / "old")
    state.create(settings)
    snapshots.restore("one")
    assert (settings.state / "etcd/db").read_text(encoding="utf-8") == "data"
    assert not (settings.state / "logs").exists()


def test_a_running_cluster_never_changes_its_snapshot(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    state.create(settings)
    database, layer = "etcd/db", "var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/0"
    for name in (database, layer):
        (settings.state / name).parent.mkdir(parents=True)
        (settings.state / name).write_text("first", encoding="ascii")
    snapshots = Snapshots(settings)
    snapshots.save("one")
    with (settings.state / database).open("r+") as handle:
        handle.write("SECOND")
    (settings.state / layer).unlink()
    state.create(settings)
    snapshots.restore("one")
    assert (settings.state / database).read_text(encoding="ascii") == "first"
    assert (settings.state / layer).read_text(encoding="ascii") == "first"
    assert (settings.state / layer).samefile(snapshots.folder / "one" / layer), "most of the size is shared"


def test_only_the_newest_two_snapshots_stay(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    state.create(settings)
    snapshots = Snapshots(settings)
    for name in ("one", "two", "three"):
        snapshots.save(name)
    assert [snapshots.has(name) for name in ("one", "two", "three")] == [False, True, True]


def test_a_folder_of_somebody_else_is_never_removed(tmp_path: Path) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years", encoding="utf-8")
    settings = Settings(cache=tmp_path / "cache", chosen_state=precious)
    for act in (state.remove, state.create):
        with pytest.raises(UsageError, match="SERVAL_LIVE_STATE"):
            act(settings)
    assert (precious / "thesis.txt").exists()


def test_two_clusters_of_one_cache_share_neither_cgroup_nor_lock(tmp_path: Path) -> None:
    one = Settings(cache=tmp_path, chosen_state=None)
    two = Settings(cache=tmp_path, chosen_state=tmp_path / "other")
    assert one.cgroup != two.cgroup
    assert one.lock != two.lock


def test_every_error_has_its_own_reason_and_exit_code() -> None:
    kinds = DevclusterError.__subclasses__()
    assert len({kind.reason for kind in kinds}) == len(kinds)
    assert len({kind.exit_code for kind in kinds}) == len(kinds)


def test_a_pod_that_goes_is_shown_as_going() -> None:
    pod = {
        "metadata": {"namespace": "s3", "name": "s3-0", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{}, {}]},
        "status": {"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 2}]},
    }
    assert status.pod_line(pod) == status.PodLine("s3", "s3-0", "1/2", "Terminating", 2)


def test_the_command_line_ends_with_the_code_of_the_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVAL_LIVE_CACHE", str(tmp_path))
    monkeypatch.setenv("SERVAL_LIVE_BACKEND", "source")
    assert cli.main(["logs"]) == 6
    assert "NotRunning" in capsys.readouterr().err
    assert cli.main(["exec", "--"]) == 2


def test_two_that_lack_the_same_package_install_it_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs, calls = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    apt = programs / "apt-get"
    # As slow as apt, and like it of no use to two at once.
    install = f"echo x >> {calls} && /bin/sleep 0.3 && /bin/ln -s /bin/true {programs}/curl"
    apt.write_text(f'#!/bin/sh\n[ "$1" != install ] || {{ {install}; }}\n', encoding="ascii")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("SERVAL_LIVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(host_packages, "_POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with ThreadPoolExecutor(2) as both:
        for each in [both.submit(host_packages.ensure, "curl") for _ in range(2)]:
            each.result()
    assert calls.read_text(encoding="ascii").split() == ["x"]
    assert host_packages.path("curl") == programs / "curl"
