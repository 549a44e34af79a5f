"""Conversion Jobs and the Secret that hands them their source."""

from dataclasses import replace
from typing import Any

from engine_operator.cluster.builders.jobs import conversion_job
from engine_operator.cluster.builders.secrets import source_secret
from engine_operator.domain.actions import ConversionPlan, StartConversion
from engine_operator.domain.engine import Languages, ObjectStore
from tests.unit.operator.domain.world import World


def planned() -> ConversionPlan:
    world = World()
    world.settle()
    return next(a for a in world.done if isinstance(a, StartConversion)).plan


def container(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return found


def secrets_of(job: dict[str, Any]) -> dict[str, str]:
    env = container(job)["env"]
    return {e["name"]: e["valueFrom"]["secretKeyRef"]["name"] for e in env if "valueFrom" in e}


def test_job_tries_once_and_ends_by_itself() -> None:
    spec = conversion_job(planned())["spec"]
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert spec["activeDeadlineSeconds"] > 600
    assert spec["ttlSecondsAfterFinished"] > 0


def test_command_line_says_what_to_make_and_hides_the_presigned_url() -> None:
    plan = replace(planned(), languages=Languages("spa_Latn", "kmr_Latn"))
    arguments = container(conversion_job(plan))["args"]
    assert arguments[:3] == ["convert", "-", plan.destination]
    options = dict(zip(arguments[3::2], arguments[4::2], strict=True))
    assert options == {
        "--quantization": "int8",
        "--engine-id": plan.key.engine_id,
        "--revision": "3",
        "--artifact-key": str(plan.key),
        "--attempt": plan.attempt_id,
        "--source-language": "spa_Latn",
        "--target-language": "kmr_Latn",
    }
    assert plan.destination == f"s3://artifacts/live/1a2b3c4d-live-main/{plan.key}/"


def test_job_holds_the_artifact_stores_secret_and_its_own_link_only() -> None:
    plan = planned()
    assert secrets_of(conversion_job(plan)) == {
        "AWS_ACCESS_KEY_ID": "store",
        "AWS_SECRET_ACCESS_KEY": "store",
        "AWS_SESSION_TOKEN": "store",
        "SERVAL_LIVE_SOURCE_URL": f"{plan.job}-source",
    }


def test_bucket_source_has_credentials_of_its_own() -> None:
    source = ObjectStore(
        "s3://silnlp/production/models/66c4_3.tar.gz", "http://s3", secret="model", ca_config_map="ca"
    )
    job = conversion_job(replace(planned(), source=source))
    assert container(job)["args"][1] == source.uri
    found = secrets_of(job)
    assert found["SERVAL_LIVE_SOURCE_AWS_ACCESS_KEY_ID"] == "model"
    assert found["AWS_ACCESS_KEY_ID"] == "store"
    assert "SERVAL_LIVE_SOURCE_URL" not in found
    plain = {e["name"]: e["value"] for e in container(job)["env"] if "value" in e}
    mounted = {m["mountPath"] for m in container(job)["volumeMounts"]}
    assert plain["SERVAL_LIVE_SOURCE_S3_CA_FILE"].rpartition("/")[0] in mounted


def test_job_runs_under_the_named_account_and_gets_no_token() -> None:
    unnamed, named = planned(), replace(planned(), service_account="workload")
    pods = [conversion_job(plan)["spec"]["template"]["spec"] for plan in (unnamed, named)]
    assert [pod.get("serviceAccountName") for pod in pods] == [None, "workload"]
    assert [pod["automountServiceAccountToken"] for pod in pods] == [False, False]


def test_job_is_restricted_and_gets_disk_and_memory() -> None:
    found = container(conversion_job(planned()))
    assert found["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"memory", "ephemeral-storage"} <= set(found["resources"]["requests"])


def test_another_image_is_another_job_and_says_nothing_else_anew() -> None:
    old, new = World(), World()
    new.policy = replace(new.policy, converter_image="registry.example/predictor@sha256:9")
    old.settle()
    new.settle()
    assert old.job().name != new.job().name
    assert old.job().artifact_key == new.job().artifact_key


def test_upgrade_leaves_a_running_job_alone() -> None:
    world = World()
    world.settle()
    world.policy = replace(world.policy, converter_image="registry.example/predictor@sha256:9")
    assert world.settle() == []


def test_secret_goes_with_the_job() -> None:
    plan = planned()
    secret = source_secret(plan.engine, plan.job, "uid-j", "https://store.example/x?X-Amz-Signature=1")
    assert secret["metadata"]["name"] == secrets_of(conversion_job(plan))["SERVAL_LIVE_SOURCE_URL"]
    owner = secret["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", plan.job, "uid-j")
