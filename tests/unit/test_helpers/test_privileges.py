"""Grants against an audit log: entries that a real API server wrote while a real operator rolled engines out.

`tests/data/audit/rollouts.jsonl` holds one entry for each kind of request between install and uninstall; the last one
came when the uninstall had taken the Roles away and the process still ran.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.privileges import (
    ON_THE_BENCH,
    Permission,
    entries_of,
    granted,
    on_the_bench,
    unused,
    use_of,
)

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ROOT / "tests" / "data" / "audit" / "rollouts.jsonl"
RBAC = ROOT / "manifests" / "base" / "rbac.yaml"
USER = "system:serviceaccount:serval-live:serval-live"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
GET_JOBS = {
    "kind": "Role",
    "metadata": {"name": "jobs", "namespace": "serval-live"},
    "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}],
}


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def shipped() -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) if one]


def test_a_refusal_is_what_the_server_decided_whatever_was_asked() -> None:
    assert use_of(USER, recorded()).refused == (
        "get /apis/coordination.k8s.io/v1/namespaces/serval-live/leases/serval-live-operator",
    )
    assert use_of("system:serviceaccount:serval-live:another", recorded()) == use_of(USER, [])


def test_a_thing_that_is_not_there_is_no_refusal_and_was_allowed_to_be_asked_for() -> None:
    missing = [one for one in recorded() if one["responseStatus"]["code"] == 404]
    use = use_of(USER, missing)
    assert use.refused == ()
    assert Permission("inferenceservices", "get", "serving.kserve.io") in {
        replace(one, namespace="", name="") for one in use.used
    }


def test_rollouts_use_what_the_shipped_roles_grant_but_for_what_only_other_days_need() -> None:
    left = unused(granted(shipped()), use_of(USER, recorded()))
    assert {str(one) for one in left if not on_the_bench(one)} == {
        # Of engines that come from Serval by themselves, and go again.
        "create translationengines.serval-live.dev",
        "patch translationengines.serval-live.dev",
        "delete translationengines.serval-live.dev",
        "delete inferenceservices.serving.kserve.io",
    }


def test_a_grant_that_nobody_uses_is_told() -> None:
    more = {**GET_JOBS, "rules": [{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]}
    use = use_of(USER, recorded())
    assert [str(one) for one in unused(granted([GET_JOBS, more]), use)] == ["get pods/log"]


def test_an_apply_that_made_its_object_needed_create_too() -> None:
    made = [one for one in recorded() if one["verb"] == "patch" and one["responseStatus"]["code"] == 201]
    verbs = {one.verb for one in use_of(USER, made).used if one.resource == "secrets"}
    assert verbs == {"create", "patch"}


def test_a_grant_in_another_namespace_or_for_another_name_is_not_what_was_used() -> None:
    use = use_of(USER, recorded())
    elsewhere = {**GET_JOBS, "metadata": {"name": "jobs", "namespace": "ruth"}}
    assert unused(granted([GET_JOBS]), use) == []
    assert len(unused(granted([elsewhere]), use)) == 1
    named = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    role = {"kind": "Role", "metadata": {"name": "settings", "namespace": "knative-serving"}}
    names = ["config-network", "config-logging"]
    left = unused(granted([{**role, "rules": [{**named, "resourceNames": names}]}]), use)
    assert [one.name for one in left] == ["config-logging"]


def test_a_wildcard_is_no_permission_that_could_be_proven() -> None:
    rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]}
    with pytest.raises(ValueError, match="grants a wildcard"):
        granted([{**GET_JOBS, "rules": [rule]}])


def test_the_table_of_exceptions_names_only_what_is_granted() -> None:
    grants = {replace(one, namespace="") for one in granted(shipped()) if one.namespace == "serval-live"}
    assert set(ON_THE_BENCH) <= grants


def test_rotated_files_are_read_first_and_a_former_account_is_left_out(tmp_path: Path) -> None:
    lines = RECORDED.read_bytes().splitlines(keepends=True)
    (tmp_path / "audit-2026-12-01T00-30-00.000.log").write_bytes(b"".join(lines[:20]))
    log = tmp_path / "audit.log"
    log.write_bytes(b"".join(lines[20:]) + lines[0].rstrip(b"\n")[:-9])
    assert list(entries_of(log, USER, LONG_AGO)) == recorded()
    late = datetime.fromisoformat(recorded()[-1]["requestReceivedTimestamp"])
    assert list(entries_of(log, USER, late)) == recorded()[-1:]
    assert list(entries_of(log, "system:serviceaccount:ruth:serval-live", LONG_AGO)) == []
