"""A stand-in for Serval: a real HTTP server with Serval's paths, orders, error bodies and losses, driven by hand.

It refuses to train, to translate, and to keep anything beyond its own life. Reading order: `domain` (what an engine and
a build are), `world` (what is remembered), `operations` and `polls` (what callers may do), `api_*` (HTTP), `gate`
(faults), `control` and `standin` (the hand), `verbs`, `admin` and `cli` (the hand from another process).
"""

from tests.support.serval.archives import EMPTY_ARCHIVE, Archive, Bucket
from tests.support.serval.control import EngineSpec
from tests.support.serval.domain import Build, Ending, Engine, EngineType, JobState, Request
from tests.support.serval.faults import Answer, Match
from tests.support.serval.settings import Settings
from tests.support.serval.standin import ServalStandIn

__all__ = [
    "EMPTY_ARCHIVE",
    "Answer",
    "Archive",
    "Bucket",
    "Build",
    "Ending",
    "Engine",
    "EngineSpec",
    "EngineType",
    "JobState",
    "Match",
    "Request",
    "ServalStandIn",
    "Settings",
]
