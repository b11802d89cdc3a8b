"""TRANSLATE: fit a closed-form map between two spaces from parallel anchors."""
