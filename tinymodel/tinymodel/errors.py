"""Everything that can go wrong while the tiny model is made.

TinyModelError
├── SourceTextMissing    a SWORD text is not installed
├── StepFailed           a step of `make` ended with an error
├── BadCheckpoint        a folder is not a checkpoint of the shape that was asked for
├── QualityTooLow        the trained model misses its target
└── NotPreserved         a widened model does not answer like its parent
"""


class TinyModelError(Exception):
    """Base of all errors of this package; `exit_code` is what the command line ends with."""

    reason = "TinyModelError"
    retryable = False
    exit_code = 1


class SourceTextMissing(TinyModelError):
    """A SWORD text is not installed; the message names the package that holds it."""

    reason = "SourceTextMissing"
    retryable = True
    exit_code = 3


class StepFailed(TinyModelError):
    """A step of `make` ended with an error of its own, which has been printed already."""

    reason = "StepFailed"
    exit_code = 4


class BadCheckpoint(TinyModelError):
    """A folder is not a checkpoint of the shape that was asked for."""

    reason = "BadCheckpoint"
    exit_code = 5


class QualityTooLow(TinyModelError):
    """The trained model misses its target on the books that it never saw."""

    reason = "QualityTooLow"
    exit_code = 6


class NotPreserved(TinyModelError):
    """A widened model does not answer like its parent."""

    reason = "NotPreserved"
    exit_code = 7
