"""The operator as a process, against a real API server, a real S3 server, and stand-ins for Serval and for nodes."""
