"""What an API call can end with, other than an answer.

ApiError                     status      body
├── Unauthenticated          401         empty
├── Forbidden                403         empty
├── NotFound                 404         problem
├── NotSupported             405         problem, no Allow header
├── LongPollTimeout          408         problem
├── Conflict                 409         problem
├── UnsupportedMediaType     415         problem
├── Invalid                  400         validation problem, names the fields
├── RuleBroken               400         the message alone
├── Cut                      499         problem without type and title
├── Unavailable              503         problem
└── Crashed                  500         empty
"""


class ApiError(Exception):
    """One outcome of an API call that is no success; the HTTP layer turns it into status and body."""

    status = 500


class Unauthenticated(ApiError):
    """No valid credential. `bearer` adds the challenge header, which Serval leaves out for API keys."""

    status = 401

    def __init__(self, *, bearer: bool) -> None:
        super().__init__("no valid credential")
        self.bearer = bearer


class Forbidden(ApiError):
    """The credential lacks the scope, or the engine belongs to somebody else."""

    status = 403


class NotFound(ApiError):
    """No such engine, build, key or engine type."""

    status = 404


class NotSupported(ApiError):
    """The engine's type cannot do this."""

    status = 405


class LongPollTimeout(ApiError):
    """Nothing happened while the request waited."""

    status = 408


class Conflict(ApiError):
    """A build is in the way, or none has finished yet."""

    status = 409


class UnsupportedMediaType(ApiError):
    """The body is not declared as JSON."""

    status = 415


class Invalid(ApiError):
    """The request's form is wrong; `fields` maps each field to its complaints."""

    status = 400

    def __init__(self, **fields: str) -> None:
        super().__init__("; ".join(fields.values()))
        self.fields = {name: [complaint] for name, complaint in fields.items()}


class RuleBroken(ApiError):
    """The request is well formed and breaks a rule; the message is the whole body."""

    status = 400


class Cut(ApiError):
    """The request ran past its limit or its caller left."""

    status = 499


class Unavailable(ApiError):
    """The database does not answer in time."""

    status = 503


class Crashed(ApiError):
    """Serval's code met something that it does not handle."""

    status = 500
