"""ENCODE: texts, images or anything a function takes → a Space that records the model, cached on disk.

``text_encoder("openai:text-embedding-3-small")`` names a model by a word, behind an address (extra: embed) or in a
folder; :func:`sample_texts` takes the texts of some items of a space, so that a new model can embed them.
``encode(items, encoder)`` runs one of these encoders: :func:`sentence_transformer` and :func:`transformer` (extra:
text), :func:`vision_transformer`, :func:`timm_model`, :func:`torchvision_model`, :func:`torch_module` and :func:`clip`
(extra: image), :func:`onnx_text` (extra: onnx), :func:`static` word vectors, and :func:`function` for any callable.
"""

from relatent.encode.encoder import Encoder, Usage, encode, function
from relatent.encode.image import ClipPair, clip, timm_model, torch_module, torchvision_model, vision_transformer
from relatent.encode.items import KINDS, Items, encode_file, encoder_of, read_items, text_column, text_encoder
from relatent.encode.remote import provider_text, remote_text
from relatent.encode.sample import Embedded, Texts, sample_texts, texts_of
from relatent.encode.text import onnx_text, sentence_transformer, static, transformer

__all__ = [
    "KINDS",
    "ClipPair",
    "Embedded",
    "Encoder",
    "Items",
    "Texts",
    "Usage",
    "clip",
    "encode",
    "encode_file",
    "encoder_of",
    "function",
    "onnx_text",
    "provider_text",
    "read_items",
    "remote_text",
    "sample_texts",
    "sentence_transformer",
    "static",
    "text_column",
    "text_encoder",
    "texts_of",
    "timm_model",
    "torch_module",
    "torchvision_model",
    "transformer",
    "vision_transformer",
]
