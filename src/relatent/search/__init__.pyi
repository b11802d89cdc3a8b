from relatent.search.mixed import MixedIndex as MixedIndex
from relatent.search.rerank import Found as Found
from relatent.search.rerank import Reranker as Reranker
from relatent.search.rerank import as_lookup as as_lookup
