"""What all estimators share: fitting succeeds or changes nothing, and data frames follow scikit-learn's rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _wrap_method_output

from relatent._array import is_space

F = TypeVar("F", bound=Callable[..., Any])


def all_or_nothing(fit: F) -> F:
    """Leave an estimator as it was if the method that fits it fails."""

    @wraps(fit)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(F, guarded)


def framed(transform: F) -> F:
    """Let a method return what ``set_output`` asks for, such as a data frame. A space becomes a space in any case."""
    plain = getattr(transform, "__wrapped__", transform)
    wrapped = _wrap_method_output(plain, "transform")

    @wraps(plain)
    def chosen(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        return (plain if is_space(X) else wrapped)(self, X, *args, **options)

    return cast(F, chosen)


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The base of estimators that transform rows.

    Arrays come out as arrays, also for a data frame, unless ``set_output(transform="pandas")`` or ``"polars"``, or
    ``sklearn.set_config(transform_output=…)``, asks for data frames, which keep the index. Both sides of a translator
    follow it: ``transform`` and ``transform_target``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("transform", "transform_target"):
            if name in vars(cls):
                setattr(cls, name, framed(vars(cls)[name]))
