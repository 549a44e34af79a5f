"""Computing translations: tokens in, tokens and scores out. Nothing here knows HTTP, gRPC or language tags."""
