"""The only owners of asyncio tasks: who leads, what woke us, polling, sweeping, looking at engines.

Refuses to decide: loops gather facts, call a pure function, and hand its actions to the executor.
Reading order: `inbox`, `leader`, `poll`, `sweep`, `engines`, `operator`.
"""
