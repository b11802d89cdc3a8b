"""Stay, translate, rerank or re-embed?
====================================

The model behind a search changes. Judged queries decide what to do with the old index: each option is scored on the
same queries, and paired differences show which of them are significant.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

from relatent.demo import run_demo

verdict = run_demo(tempfile.mkdtemp()).verdict
print(verdict)

# %%
# The same as a picture. An interval contains 95 % of the scores of resampled queries. The differences on the right,
# computed query by query, decide.

options = {
    "stay": "stay: old model, old index",
    "untranslated": "untranslated: new queries, old index",
    "translate": "translate",
    "rerank-old": "rerank-old: new model ranks old candidates",
    "rerank": "rerank: new model ranks translated candidates",
    "re-embed": "re-embed (ceiling)",
}
records = {r["option"]: r for r in verdict.to_dict()["measures"] if r["measure"] == "ndcg" and r["slice"] == "all"}
colors = {"stay": "C7", "untranslated": "C1", "translate": "C0", "rerank-old": "C4", "rerank": "C2", "re-embed": "C8"}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, width_ratios=[1.1, 1])
for axes, (value, low, high) in ((left, ("value", "low", "high")), (right, ("change", "change_low", "change_high"))):
    for i, name in enumerate(options):
        found = records[name]
        if found[value] is None:
            continue
        axes.plot([found[low], found[high]], [i, i], color=colors[name], linewidth=4, solid_capstyle="round", alpha=0.4)
        axes.plot(found[value], i, "o", color=colors[name], markersize=9)
        axes.text(found[value], i - 0.28, f"{found[value]:.3f}", ha="center", color=colors[name], size=10, clip_on=True)
left.set_yticks(np.arange(len(options)), options.values())
left.set(title="nDCG@10", xlim=(0, 1.02), ylim=(len(options) - 0.5, -0.7))
right.axvline(0, color="C7", linewidth=1)
right.axvspan(-0.01, 0, color="C7", alpha=0.3, linewidth=0)
right.set_xlim(-0.06, 0.22)
right.text(-0.055, 1, f"◀ {records['untranslated']['change']:.2f}", color="C1", va="center")
right.text(0.004, -0.4, "better ▶", color="C7", size=10)
right.set_title(f"against staying: {verdict.to_dict()['verdict']}, {verdict.to_dict()['recommended']}")
plt.show()
