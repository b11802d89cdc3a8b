"""HOLD: vectors with keys, in memory or on disk, and the normalizations that are fitted on anchors."""

from typing import TYPE_CHECKING

from relatent._lazy import attach

if TYPE_CHECKING:
    from relatent.spaces.chunks import Chunk as Chunk
    from relatent.spaces.fingerprint import Fingerprint as Fingerprint
    from relatent.spaces.inspect import Inspection as Inspection
    from relatent.spaces.inspect import inspect_space as inspect_space
    from relatent.spaces.io.files import SpaceWriter as SpaceWriter
    from relatent.spaces.io.files import check_new as check_new
    from relatent.spaces.io.files import check_output as check_output
    from relatent.spaces.io.files import read_space as read_space
    from relatent.spaces.io.files import space_writer as space_writer
    from relatent.spaces.io.files import write_space as write_space
    from relatent.spaces.io.mapping import ResumeWarning as ResumeWarning
    from relatent.spaces.io.mapping import map_space as map_space
    from relatent.spaces.join import Matched as Matched
    from relatent.spaces.join import Parallel as Parallel
    from relatent.spaces.join import duplicate_keys as duplicate_keys
    from relatent.spaces.join import match_keys as match_keys
    from relatent.spaces.join import parallel as parallel
    from relatent.spaces.keys import held_out as held_out
    from relatent.spaces.keys import key_hashes as key_hashes
    from relatent.spaces.keys import key_texts as key_texts
    from relatent.spaces.multi_vectors import MultiSpace as MultiSpace
    from relatent.spaces.multi_vectors import MultiVectors as MultiVectors
    from relatent.spaces.multi_vectors import token_pairs as token_pairs
    from relatent.spaces.normalize import Normalizer as Normalizer
    from relatent.spaces.normalize import live_dimensions as live_dimensions
    from relatent.spaces.probe import Match as Match
    from relatent.spaces.probe import Probe as Probe
    from relatent.spaces.probe import SpaceWarning as SpaceWarning
    from relatent.spaces.quantize import Quantizer as Quantizer
    from relatent.spaces.space import Space as Space
else:
    __getattr__, __dir__, __all__ = attach(__name__)
