"""ENCODE: texts, images or anything a function takes → a Space that records the model, cached on disk.

``encode(items, encoder)`` runs one of these encoders: :func:`sentence_transformer` and :func:`transformer` (extra:
text), :func:`vision_transformer`, :func:`timm_model`, :func:`torchvision_model`, :func:`torch_module` and :func:`clip`
(extra: image), :func:`onnx_text` (extra: onnx), :func:`static` word vectors, and :func:`function` for any callable.
"""

from relatent.encode.encoder import Encoder, encode, function
from relatent.encode.image import ClipPair, clip, timm_model, torch_module, torchvision_model, vision_transformer
from relatent.encode.items import KINDS, Items, encode_file, encoder_of, read_items
from relatent.encode.text import onnx_text, sentence_transformer, static, transformer

__all__ = [
    "KINDS",
    "ClipPair",
    "Encoder",
    "Items",
    "clip",
    "encode",
    "encode_file",
    "encoder_of",
    "function",
    "onnx_text",
    "read_items",
    "sentence_transformer",
    "static",
    "timm_model",
    "torch_module",
    "torchvision_model",
    "transformer",
    "vision_transformer",
]
