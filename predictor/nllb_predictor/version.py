"""The version of the installed distribution, looked up on demand: it costs a tenth of a second of a cold start."""


def package_version() -> str:
    """Such as `0.1.0`; `0+unknown` for a copy that was never installed, such as a checkout on a bare path."""
    from importlib import metadata

    try:
        return metadata.version("serval-live")
    except metadata.PackageNotFoundError:
        return "0+unknown"
