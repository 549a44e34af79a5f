"""The one error tree of the predictor package: what can go wrong, under which name, and who may try again.

Every failure that a person or the operator has to tell apart has its own class with a `reason` (a constant of the
wire: termination message, metric label, status), an exit code for the command line, and `retryable`: whether the
same command may succeed later without anybody changing the model, the arguments or the cluster. This module refuses
to format for a protocol: the mapping to HTTP and gRPC is one table in the server.

    PredictorError
    ├── ConversionError                 a checkpoint cannot become a model
    │   ├── SourceMissing               nothing is there under the given name
    │   ├── SourceUnreachable           the source did not answer, or broke off again and again
    │   ├── SourceRefused               the source answered, and says no (expired link, wrong key)
    │   ├── MissingFile                 a file that every checkpoint has is not in this one
    │   ├── UnsafeArchive               a member that could write outside, or flood the disk
    │   ├── BrokenArchive               not a gzip tar, cut off, or damaged
    │   ├── EmptyArchive                a sound archive without members: an engine that was never trained
    │   ├── PickleOnly                  weights only as Python pickle, which is never loaded
    │   ├── UnsupportedArchitecture     not M2M100, or a variant that CTranslate2 does not compute
    │   ├── VocabularyMismatch          tokens and embedding rows do not fit together
    │   ├── BrokenCheckpoint            weights damaged, missing, of a wrong shape
    │   ├── BrokenConfig                a JSON file that cannot be read or contradicts itself
    │   ├── LanguagesDisagree           the files name different target languages
    │   ├── LanguageNotInModel          an asked language code is no token of this model
    │   ├── NoSpace                     the disk is full, or would be
    │   ├── DestinationInUse            the target exists, or cannot be written
    │   ├── NoMemory                    an allocation failed
    │   └── SelfTestFailed              the converted model does not compute what the checkpoint computes
    ├── StoreError                      an artifact cannot be read or written
    │   ├── ObjectMissing               the exact key is not there
    │   ├── StoreUnreachable            no answer, or it broke off again and again
    │   ├── StoreUntrusted              the certificate is not signed by the CA in use
    │   ├── StoreRefused                credentials are missing, wrong or too weak
    │   ├── ChecksumMismatch            bytes differ from what the manifest promises
    │   └── ManifestInvalid             the manifest is not one, or of a newer schema
    ├── FetchError                      a base model cannot be fetched
    │   ├── ModelNotFound               the hub does not know that name or revision
    │   ├── HubUnreachable              the hub did not answer
    │   └── HubRefused                  the model is gated or the token is wrong
    ├── LoadError                       this process cannot serve what it was told to serve
    │   ├── WrongArtifact               the manifest names another engine, revision or file than the settings
    │   ├── DeviceMissing               a GPU is demanded and there is none
    │   ├── ModelUnloadable             CTranslate2 or the tokenizer refuses the files
    │   ├── ProbeMismatch               the probe sentences do not translate as recorded
    │   └── PortTaken                   another process listens there
    ├── RequestError                    one request cannot be answered; `field` names its part at fault
    │   ├── BadRequest                  malformed, or a value outside its range
    │   ├── UnknownLanguage             no code of this engine
    │   ├── LanguageNeeded              no language given, and the engine has none of its own
    │   ├── PairNotServed               a pair that this engine was not trained for
    │   ├── TextTooLong                 more tokens than the model has positions
    │   ├── UnknownModel                no model of that name, version or path here
    │   ├── BodyTooSlow                 the body did not arrive in time
    │   ├── HeadTooSlow                 nor did its line and headers
    │   ├── PayloadTooLarge             more bytes than the setting allows
    │   ├── NotReady                    the model is still on its way
    │   ├── ShuttingDown                the process leaves and takes nothing new
    │   ├── Overloaded                  the queue is full
    │   ├── DeadlineExceeded            not done within the caller's time
    │   └── OutOfMemory                 the device has no room for this batch
    ├── CallFailed                      a running server that a command asked did not answer, or refused
    └── UsageError                      arguments contradict each other
"""

from typing import ClassVar


class PredictorError(Exception):
    """Base of all errors of this package. `str(error)` is one sentence for a person, with the names and numbers."""

    reason: ClassVar[str] = "Internal"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """What the reader can do about it; empty where the message says it all."""

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class UsageError(PredictorError):
    """Arguments that cannot be meant together."""

    reason, exit_code = "BadArguments", 2


class ConversionError(PredictorError):
    """A checkpoint cannot become a model."""


class SourceMissing(ConversionError):
    """Nothing exists under the given path, key or URL. Serval publishes some builds before their file, so a later
    attempt may find it."""

    reason, exit_code, retryable = "SourceMissing", 10, True


class MissingFile(ConversionError):
    """The checkpoint lacks a file that it cannot do without."""

    reason, exit_code = "MissingFile", 11


class UnsafeArchive(ConversionError):
    """A member of the archive has a name, a type or a size that no model archive needs."""

    reason, exit_code = "UnsafeArchive", 12


class BrokenArchive(ConversionError):
    """The archive is no gzip tar, ends too early, or fails its own checksum. An upload may still be running."""

    reason, exit_code, retryable = "BrokenArchive", 13, True


class EmptyArchive(ConversionError):
    """The archive is sound and holds nothing: Serval stores this for an engine without training data."""

    reason, exit_code = "EmptyArchive", 14


class PickleOnly(ConversionError):
    """The weights exist only as Python pickle. Loading one runs its code, so it is refused."""

    reason, exit_code = "PickleOnly", 15


class UnsupportedArchitecture(ConversionError):
    """The model is not of the M2M100 family, or uses a variant that the converted form cannot express."""

    reason, exit_code = "UnsupportedArchitecture", 16


class VocabularyMismatch(ConversionError):
    """The tokenizer knows tokens that have no embedding row, or gives one id to two tokens."""

    reason, exit_code = "VocabularyMismatch", 17


class BrokenCheckpoint(ConversionError):
    """Weights that are damaged, incomplete, of a wrong shape, or tied copies that differ."""

    reason, exit_code = "BrokenCheckpoint", 18


class BrokenConfig(ConversionError):
    """A JSON file of the checkpoint cannot be read, lacks a field, or contradicts another one."""

    reason, exit_code = "BrokenConfig", 19


class LanguagesDisagree(ConversionError):
    """The checkpoint's files name different target languages, and no argument decides."""

    reason, exit_code = "LanguagesDisagree", 20


class LanguageNotInModel(ConversionError):
    """An asked language code is not a token of this model."""

    reason, exit_code = "LanguageNotInModel", 21


class NoSpace(ConversionError):
    """The disk is full, or too small for what comes."""

    reason, exit_code, retryable = "NoSpace", 22, True


class DestinationInUse(ConversionError):
    """The target folder exists already, is being written by another process, or cannot be written at all."""

    reason, exit_code = "DestinationInUse", 23


class SelfTestFailed(ConversionError):
    """The converted model does not compute what the checkpoint's own tensors compute. Nothing was published."""

    reason, exit_code = "SelfTestFailed", 24


class SourceUnreachable(ConversionError):
    """The source did not answer, or the connection broke more often than it is resumed."""

    reason, exit_code, retryable = "SourceUnreachable", 25, True


class SourceRefused(ConversionError):
    """The source answered with a refusal: the presigned URL has expired, or a key is wrong. A new attempt gets a
    new URL."""

    reason, exit_code, retryable = "SourceRefused", 26, True


class NoMemory(ConversionError):
    """An allocation failed. A container's memory limit kills the process instead, with exit code 137 and no message."""

    reason, exit_code = "NoMemory", 27


class StoreError(PredictorError):
    """An artifact cannot be read or written."""


class ObjectMissing(StoreError):
    """The exact key does not exist. Nothing else is tried in its place."""

    reason, exit_code = "ObjectMissing", 30


class StoreUnreachable(StoreError):
    """The store did not answer, answered 5xx, or broke off more often than a part is retried."""

    reason, exit_code, retryable = "StoreUnreachable", 31, True


class StoreUntrusted(StoreError):
    """The store's certificate is not signed by the CA that was tried."""

    reason, exit_code = "StoreUntrusted", 32


class StoreRefused(StoreError):
    """Credentials are missing, wrong, or not allowed to do this."""

    reason, exit_code = "StoreRefused", 33


class ChecksumMismatch(StoreError):
    """Size or SHA-256 of an object, or of the manifest itself, is not what was promised."""

    reason, exit_code, retryable = "ChecksumMismatch", 34, True


class ManifestInvalid(StoreError):
    """The manifest is not valid, or of a schema that this version does not know."""

    reason, exit_code = "ManifestInvalid", 35


class FetchError(PredictorError):
    """A base model cannot be fetched from the hub."""


class ModelNotFound(FetchError):
    """The hub does not know that model or revision, or the model lacks the needed files."""

    reason, exit_code = "ModelNotFound", 40


class HubUnreachable(FetchError):
    """The hub did not answer, or the connection broke more often than it is resumed."""

    reason, exit_code, retryable = "HubUnreachable", 41, True


class HubRefused(FetchError):
    """The model is gated, or the token is missing or wrong."""

    reason, exit_code = "HubRefused", 42


class CallFailed(PredictorError):
    """A running server that a command asked did not answer, or refused."""

    reason, exit_code = "CallFailed", 60


class LoadError(PredictorError):
    """This process cannot serve what it was told to serve. It writes why and exits."""


class WrongArtifact(LoadError):
    """The manifest that was found names another engine, revision or checksum than the settings do."""

    reason, exit_code = "WrongArtifact", 50


class DeviceMissing(LoadError):
    """The settings demand a device that is not there."""

    reason, exit_code = "DeviceMissing", 51


class ModelUnloadable(LoadError):
    """The files are whole, and still CTranslate2 or the tokenizer cannot open them."""

    reason, exit_code = "ModelUnloadable", 52


class ProbeMismatch(LoadError):
    """The manifest's probe sentences do not translate on this device as they did when the model was converted."""

    reason, exit_code = "ProbeMismatch", 53


class PortTaken(LoadError):
    """The address cannot be listened on."""

    reason, exit_code = "PortTaken", 54


class RequestError(PredictorError):
    """One request cannot be answered; the process goes on. `field` names the part of the request at fault."""

    reason = "RequestFailed"

    def __init__(
        self, message: str, *, field: str = "", hint: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.retry_after = retry_after
        """Seconds after which the same call may succeed, where that was estimated."""


class BadRequest(RequestError):
    """The request is malformed, contradicts itself, or asks for a value outside its range."""

    reason = "BadRequest"


class UnknownLanguage(RequestError):
    """The language is no token of this engine; the hint has near matches."""

    reason = "UnknownLanguage"


class LanguageNeeded(RequestError):
    """No language was given, and the engine has none of its own."""

    reason = "LanguageNeeded"


class PairNotServed(RequestError):
    """The engine was trained for one pair, and this is another."""

    reason = "PairNotServed"


class TextTooLong(RequestError):
    """A segment has more tokens than the model can read. Nothing is ever cut."""

    reason = "TextTooLong"


class UnknownModel(RequestError):
    """No model of that name or version, or no such path, is served here."""

    reason = "UnknownModel"


class BodyTooSlow(RequestError):
    """The body of the request did not arrive within the time that the setting allows."""

    reason = "BodyTooSlow"


class HeadTooSlow(RequestError):
    """The line and headers of the request did not arrive within the time that a body has."""

    reason = "HeadTooSlow"


class PayloadTooLarge(RequestError):
    """The request has more bytes than the server takes."""

    reason = "PayloadTooLarge"


class NotReady(RequestError):
    """The model is not loaded yet; the same call may succeed in a moment."""

    reason = "NotReady"
    retryable = True


class ShuttingDown(RequestError):
    """The process is leaving; another one will answer."""

    reason = "ShuttingDown"
    retryable = True


class Overloaded(RequestError):
    """As many segments wait as may wait."""

    reason = "Overloaded"
    retryable = True


class DeadlineExceeded(RequestError):
    """The answer was not there within the time that the caller gave."""

    reason = "DeadlineExceeded"
    retryable = True


class OutOfMemory(RequestError):
    """The device has no memory for this request; others go on."""

    reason = "OutOfMemory"
    retryable = True
