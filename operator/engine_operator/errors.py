"""Everything that the operator can fail with.

    OperatorError
    ├── UsageError                    the caller or a setting asked for something that cannot be        exit 2
    │   ├── NameTooLong               a name and its namespace do not fit into one DNS label
    │   └── BudgetInvalid             the waiting times contradict each other
    ├── ServalError                   Serval's HTTP interface                                           exit 3
    │   ├── ServalUnreachable         no answer, or one of its proxy's: 408, 499, 502, 503, 504    retryable
    │   ├── ServalMisbehaved          500, or a body that is not what the interface promises      retryable
    │   ├── ServalRefusedCredentials  401: the key or token is not accepted
    │   ├── ServalForbids             403: another owner's engine, or a scope is missing
    │   ├── ServalLacks               404: no such engine or build
    │   ├── ServalDeclines            400, 405, 409: this can't be done with this engine
    │   ├── ModelUnavailable          no archive of the wanted revision is offered                 retryable
    │   └── ModelSuperseded           the archive that is offered is of another revision           retryable
    ├── StoreError                    the artifact store                                                exit 4
    │   ├── StoreUnreachable          no answer in time, or 5xx                                    retryable
    │   ├── StoreRefuses              wrong keys, or keys that may not do this
    │   ├── StoreMisconfigured        a Secret, key, bucket or address that is missing; names it
    │   │   └── OwnIdentityRefused    no Secret, and the operator's own identity is not for this store
    │   ├── StoreInUse                another cluster owns this installation's folder
    │   └── ManifestInvalid           a manifest that does not keep its schema
    └── ClusterError                  the Kubernetes API                                                exit 5
        ├── ClusterUnreachable        no answer, or 5xx                                            retryable
        ├── ClusterBusy               429; knows how long to wait                                  retryable
        ├── WebhookFailed             an admission webhook did not answer                          retryable
        ├── NotFound                  404
        ├── AlreadyExists             409 on create
        ├── Conflict                  409: another field manager owns a field that we apply
        ├── Outdated                  409: the object is not the one any more that was read before
        ├── Forbidden                 401, 403: the service account may not do this
        ├── ClusterUnnamed            what names this cluster may not be read, and is needed
        ├── Rejected                  400, 422: validation or admission refused the object
        └── LeaseLost                 another process leads, or may lead                           retryable

`reason` is a constant word that conditions and metrics show; the message is for people.
"""

from typing import ClassVar


class OperatorError(Exception):
    """Base of all errors."""

    reason: ClassVar[str] = "Failed"
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1


class UsageError(OperatorError):
    """A flag, a setting or a file that the caller named can't be used."""

    reason = "Usage"
    exit_code = 2


class NameTooLong(UsageError):
    """A name and its namespace do not fit into one DNS label; the message has the numbers."""

    reason = "NameTooLong"


class BudgetInvalid(UsageError):
    """The waiting times contradict each other; the message names the broken inequality."""

    reason = "BudgetInvalid"


class ServalError(OperatorError):
    """Base of all failures of Serval's HTTP interface."""

    reason = "ServalError"
    exit_code = 3


class ServalUnreachable(ServalError):
    """Nobody answered, or a proxy did in Serval's place. Says nothing about any engine."""

    reason = "ServalUnreachable"
    retryable = True


class ServalMisbehaved(ServalError):
    """Status 500 or a body of the wrong shape. Says nothing about any engine."""

    reason = "ServalMisbehaved"
    retryable = True


class ServalRefusedCredentials(ServalError):
    """The API key or token is wrong, revoked or expired."""

    reason = "CredentialsRefused"


class ServalForbids(ServalError):
    """The engine belongs to another owner, or the credentials lack a scope. Never means that it was deleted."""

    reason = "NotOurs"


class ServalLacks(ServalError):
    """The engine or build does not exist for this owner."""

    reason = "NotFound"


class ServalDeclines(ServalError):
    """Serval understood and can't: not persisted, never trained, wrong type."""

    reason = "Declined"


class ModelUnavailable(ServalError):
    """Serval has no archive to offer, although the build completed: not uploaded, or removed by its cleanup."""

    reason = "SourceMissing"
    retryable = True


class ModelSuperseded(ServalError):
    """Serval offers the archive of another revision than the one that was asked for."""

    reason = "ModelSuperseded"
    retryable = True


class StoreError(OperatorError):
    """Base of all failures of the artifact store."""

    reason = "StoreError"
    exit_code = 4


class StoreUnreachable(StoreError):
    """The store did not answer in time, or answered 5xx."""

    reason = "StoreUnreachable"
    retryable = True


class StoreRefuses(StoreError):
    """The store knows the keys not at all, or they may not do this."""

    reason = "StoreRefuses"


class StoreMisconfigured(StoreError):
    """Something that people must provide is missing; the message names the exact thing."""

    reason = "StoreMisconfigured"


class OwnIdentityRefused(StoreMisconfigured):
    """A store without a Secret that the settings do not list: it is not even asked."""


class StoreInUse(StoreError):
    """Another cluster wrote its owner mark into our installation's folder within a day."""

    reason = "ArtifactStoreInUse"


class ManifestInvalid(StoreError):
    """A manifest that is no JSON, breaks its schema, or names another artifact than its key."""

    reason = "ManifestInvalid"


class ClusterError(OperatorError):
    """Base of all failures of the Kubernetes API."""

    reason = "ClusterError"
    exit_code = 5


class ClusterUnreachable(ClusterError):
    """No answer, or 5xx."""

    reason = "ClusterUnreachable"
    retryable = True


class ClusterBusy(ClusterError):
    """429. `retry_after` is what the server asked for, in seconds."""

    reason = "ClusterBusy"
    retryable = True

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class WebhookFailed(ClusterError):
    """An admission webhook did not answer; `webhook` is its name. The object itself was not judged."""

    reason = "WebhookUnavailable"
    retryable = True

    def __init__(self, message: str, webhook: str) -> None:
        super().__init__(message)
        self.webhook = webhook


class NotFound(ClusterError):
    """No such object, or no such kind."""

    reason = "NotFound"


class AlreadyExists(ClusterError):
    """An object of this name exists, perhaps one that is being deleted."""

    reason = "AlreadyExists"


class Conflict(ClusterError):
    """Another field manager owns a field that we apply; the message names both."""

    reason = "ForeignFieldOwner"


class Outdated(ClusterError):
    """The object was changed, or replaced by another of its name, since it was read."""

    reason = "Outdated"


class Forbidden(ClusterError):
    """The service account may not do this."""

    reason = "Forbidden"


class ClusterUnnamed(ClusterError):
    """The uid that names this cluster may not be read, and an installation has no other name."""

    reason = "ClusterUnnamed"


class Rejected(ClusterError):
    """Validation or admission refused the object. The same object will be refused again."""

    reason = "Rejected"


class LeaseLost(ClusterError):
    """Another process holds the Lease, or ours could not be renewed in time. Nothing may be written."""

    reason = "LeaseLost"
    retryable = True
