"""Commands for a person at a terminal: translate, compare, doctor. They ask an engine; they are none."""
