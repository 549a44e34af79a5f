"""Serval's records as the decisions see them."""

from engine_operator.domain.keys import EngineId
from engine_operator.domain.serval_facts import ServalEngine
from engine_operator.serval.dto import ServalEngine as ServalEngineDto


def facts_of(dto: ServalEngineDto) -> ServalEngine:
    """Serval's record as the decisions see it."""
    return ServalEngine(
        id=EngineId(dto.id),
        type=dto.type,
        model_revision=dto.model_revision,
        is_model_persisted=bool(dto.is_model_persisted),
        is_building=dto.is_building,
        name=dto.name or "",
        source_language=dto.source_language,
        target_language=dto.target_language,
        date_created=dto.date_created,
    )
