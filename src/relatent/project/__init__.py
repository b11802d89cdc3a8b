"""PROJECT: from absolute to relative and back."""

from relatent.project import similarity
from relatent.project.codes import RelativeDecoder, RelativeEncoder
from relatent.project.inverse import RelativeTranslator, inverse_relative_projection
from relatent.project.relative import RelativeProjection, project_space, relative_projection

__all__ = [
    "RelativeDecoder",
    "RelativeEncoder",
    "RelativeProjection",
    "RelativeTranslator",
    "inverse_relative_projection",
    "project_space",
    "relative_projection",
    "similarity",
]


def __dir__() -> list[str]:
    return __all__
