"""What the interactive engine types answer: enough of echo and SMT for callers to read results and graphs.

Neither translates: both copy. Echo keeps Serval's own fault, a graph that lacks its last arc, so that consumers can be
tested against it.
"""

from tests.support.serval.domain import EngineType
from tests.support.serval.rendering import Json

SMT_INITIAL_SCORE = -1.5
SMT_ARC_SCORE = -0.25


def translation(segment: str) -> Json:
    """A result whose tokens are the segment's words, each aligned with itself, in one phrase."""
    tokens = segment.split()
    phrases = [{"sourceSegmentStart": 0, "sourceSegmentEnd": len(tokens), "targetSegmentCut": len(tokens)}]
    return {
        "translation": segment,
        "sourceTokens": tokens,
        "targetTokens": tokens,
        "confidences": [1.0] * len(tokens),
        "sources": [["Primary"]] * len(tokens),
        "alignment": [{"sourceIndex": at, "targetIndex": at} for at in range(len(tokens))],
        "phrases": phrases if tokens else [],
    }


def word_graph(kind: EngineType, segment: str) -> Json:
    """A chain of one arc per word; echo leaves the last arc out and names its end as final all the same."""
    tokens = segment.split()
    echo = kind is EngineType.ECHO
    arcs = len(tokens) - 1 if echo and tokens else len(tokens)
    return {
        "sourceTokens": tokens,
        "initialStateScore": 0.0 if echo else SMT_INITIAL_SCORE,
        "finalStates": [len(tokens)] if tokens else [],
        "arcs": [_arc(at, tokens[at], 1.0 if echo else SMT_ARC_SCORE) for at in range(arcs)],
    }


def _arc(at: int, token: str, score: float) -> Json:
    return {
        "prevState": at,
        "nextState": at + 1,
        "score": score,
        "targetTokens": [token],
        "confidences": [1.0],
        "sourceSegmentStart": at,
        "sourceSegmentEnd": at + 1,
        "alignment": [{"sourceIndex": 0, "targetIndex": 0}],
        "sources": [["Primary"]],
    }
