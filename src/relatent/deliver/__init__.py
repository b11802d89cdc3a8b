"""DELIVER: the stages on whole files, a verdict on a migration, and fitted things that come back."""

from relatent.deliver.apply import map_space, translate_space
from relatent.deliver.describe import Fitted, describe
from relatent.deliver.judge import Relevance, judge, read_relevance
from relatent.deliver.saved import load
from relatent.deliver.stages import STRATEGIES, anchor_rows, compare_spaces, project_space, select_anchors
from relatent.deliver.stitched import Stitched, stitch_space

__all__ = [
    "STRATEGIES",
    "Fitted",
    "Relevance",
    "Stitched",
    "anchor_rows",
    "compare_spaces",
    "describe",
    "judge",
    "load",
    "map_space",
    "project_space",
    "read_relevance",
    "select_anchors",
    "stitch_space",
    "translate_space",
]
