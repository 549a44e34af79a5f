"""Bytes and messages of each protocol to one request record and back. Nothing here translates or waits."""
