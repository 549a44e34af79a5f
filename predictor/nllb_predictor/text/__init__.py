"""Pure functions between a caller's text and the model's tokens."""
