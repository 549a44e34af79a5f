"""Reads and writes objects with kubectl, the client that people use themselves.

A thin wrapper: it turns JSON into dictionaries, absence into None, and any other failure into `KubectlFailed` with
what kubectl said. It holds no state and caches nothing.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]


class KubectlFailed(RuntimeError):
    """kubectl exited with an error other than "not found"."""


class Kubectl:
    """kubectl against the cluster of `KUBECONFIG`, in one namespace unless a call names another."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def run(self, *arguments: str, stdin: str | None = None, namespace: str | None = None) -> str:
        """kubectl's standard output; raises KubectlFailed."""
        command = ["kubectl", "--namespace", namespace or self.namespace, *arguments]
        result = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=120
        )
        if result.returncode:
            raise KubectlFailed(f"{' '.join(arguments[:4])}: {result.stderr.strip()}")
        return result.stdout

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None if it does not exist."""
        found = self.run("get", kind, name, "--ignore-not-found", "-o", "json", namespace=namespace)
        return json.loads(found) if found.strip() else None

    def list(self, kind: str, selector: str = "", namespace: str | None = None) -> list[Object]:
        """All objects of a kind that match a label selector."""
        options = ["-l", selector] if selector else []
        items: list[Object] = json.loads(self.run("get", kind, *options, "-o", "json", namespace=namespace))[
            "items"
        ]
        return items

    def apply(self, *objects: Mapping[str, Any], namespace: str | None = None) -> None:
        """Server-side apply, as a person would."""
        # JSON: what YAML writers leave bare, such as the text 778722987e33, kubectl and helm read as a number.
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.run(
            "apply", "--server-side", "--field-manager=person", "-f", "-", stdin=text, namespace=namespace
        )

    def delete(
        self, kind: str, *names: str, options: Sequence[str] = (), namespace: str | None = None
    ) -> None:
        """Delete by name and return at once; absence is fine, also that of the kind."""
        self._delete(kind, *names, "--wait=false", *options, namespace=namespace)

    def delete_all(self, kind: str, timeout: str) -> None:
        """Delete all objects of a kind and wait for their end; absence is fine, also that of the kind."""
        self._delete(kind, "--all", f"--timeout={timeout}")

    def _delete(self, *arguments: str, namespace: str | None = None) -> None:
        try:
            self.run("delete", *arguments, "--ignore-not-found", namespace=namespace)
        except KubectlFailed as error:
            if "doesn't have a resource type" not in str(error):
                raise

    def describe_engine(self, name: str) -> str:
        """Everything that tells why an engine is where it is: for failing tests."""
        parts = [
            self._text("get", "translationengines,servalsources", "-o", "yaml"),
            self._text("get", "inferenceservices,revisions,podautoscalers,jobs,pods", "-o", "wide"),
            self._text("get", "events", "--sort-by=.lastTimestamp"),
            self._text("logs", "deployment/serval-live", "--tail=60"),
            self._text(
                "logs", "-l", f"serval-live.dev/engine={name}", "--all-containers", "--tail=30", "--prefix"
            ),
        ]
        return "\n".join(parts)

    def _text(self, *arguments: str) -> str:
        try:
            return f"$ kubectl {' '.join(arguments)}\n{self.run(*arguments)}"
        except KubectlFailed as error:
            return f"$ kubectl {' '.join(arguments)}\n({error})"


def condition(item: Object | None, kind: str) -> Object:
    """A condition of an object's status; empty if it has none of that type."""
    conditions = (item or {}).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})
