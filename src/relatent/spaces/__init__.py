"""HOLD: vectors with keys, in memory or on disk, and the normalizations that are fitted on anchors."""

from relatent.spaces.chunks import Chunk
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.inspect import Inspection, inspect_space
from relatent.spaces.io.files import SpaceWriter, check_new, check_output, read_space, space_writer, write_space
from relatent.spaces.io.mapping import ResumeWarning, map_space
from relatent.spaces.join import Matched, Parallel, duplicate_keys, match_keys, parallel
from relatent.spaces.keys import held_out, key_hashes, key_texts
from relatent.spaces.multi_space import MultiSpace
from relatent.spaces.multi_vectors import MultiVectors, token_pairs
from relatent.spaces.normalize import Normalizer, live_dimensions
from relatent.spaces.probe import Match, Probe, SpaceWarning
from relatent.spaces.quantize import Quantizer
from relatent.spaces.space import Space

__all__ = [
    "Chunk",
    "Fingerprint",
    "Inspection",
    "Match",
    "Matched",
    "MultiSpace",
    "MultiVectors",
    "Normalizer",
    "Parallel",
    "Probe",
    "Quantizer",
    "ResumeWarning",
    "Space",
    "SpaceWarning",
    "SpaceWriter",
    "check_new",
    "check_output",
    "duplicate_keys",
    "held_out",
    "inspect_space",
    "key_hashes",
    "key_texts",
    "live_dimensions",
    "map_space",
    "match_keys",
    "parallel",
    "read_space",
    "space_writer",
    "token_pairs",
    "write_space",
]
