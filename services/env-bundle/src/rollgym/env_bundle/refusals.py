"""What this service refuses of an HTTP request, beyond the errors that every service has."""

from rollgym.common.errors import RequestError


class UnknownEnvironment(RequestError):
    """The path names an environment that is not served here."""

    code = "unknown_environment"
    status = 404


class EpisodeRefused(RequestError):
    """The environment cannot do that now: no episode, or one that is over."""

    code = "episode_refused"
    status = 409
