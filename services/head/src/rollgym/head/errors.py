"""The head's own refusals, beside the common tree: what was asked for is not here, or cannot be kept."""

from rollgym.common.errors import RequestError, RollgymError


class RunUnknown(RequestError):
    """No run of that id is in the history (never reported, or older than what is kept)."""

    code = "run_unknown"
    status = 404


class ServerUnknown(RequestError):
    """No server of that instance id is registered."""

    code = "server_unknown"
    status = 404


class HeadFull(RollgymError):
    """A bound of the head is reached: servers registered, or event streams open."""

    code = "head_full"
    status = 503
