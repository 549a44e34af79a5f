"""What a header can hold. Libraries put a header that they refuse into the words of their error, key and all; so keys
and tokens are looked at before any library gets them."""


def fits_header(value: str) -> bool:
    """Whether a key or token can stand in a header: printable ASCII, without white space around."""
    return value.isascii() and value.isprintable() and value == value.strip()
