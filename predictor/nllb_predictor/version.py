"""The version of the installed distribution, looked up on demand: it would cost every cold start a tenth of a second."""


def package_version() -> str:
    """Such as `0.1.0`; `0+unknown` for a copy that was never installed, such as a checkout on a bare path."""
    from importlib import metadata

    try:
        return metadata.version("serval-live")
    except metadata.PackageNotFoundError:
        return "0+unknown"
