"""PROJECT: from absolute to relative and back."""

from typing import TYPE_CHECKING

from relatent._lazy import attach

if TYPE_CHECKING:
    from relatent.project import similarity as similarity
    from relatent.project.codes import RelativeDecoder as RelativeDecoder
    from relatent.project.codes import RelativeEncoder as RelativeEncoder
    from relatent.project.formulas import inverse_relative_projection as inverse_relative_projection
    from relatent.project.formulas import relative_projection as relative_projection
    from relatent.project.inverse import RelativeTranslator as RelativeTranslator
    from relatent.project.relative import RelativeProjection as RelativeProjection
    from relatent.project.relative import project_space as project_space
else:
    __getattr__, __dir__, __all__ = attach(__name__)
