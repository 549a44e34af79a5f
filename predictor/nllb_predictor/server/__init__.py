"""Serving one model over KServe v1 and v2, REST and gRPC. Import `command` for the command line; everything that needs
the KServe SDK is imported only after the model's download has begun."""
