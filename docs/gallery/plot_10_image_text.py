"""Classify images by text, without training (ASIF)
================================================

An image encoder and a text encoder, trained independently, become a zero-shot classifier from images with captions. An
image is described by the captioned images that it resembles, a prompt by the captions that it resembles, and the two
descriptions are compared.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

import relatent as rl

images, labels = load_digits(return_X_y=True)
images = images / 16
words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

# %%
# Captions name the digit and how it is drawn. Thickness and width are measured in the image.

ink, width = images.sum(axis=1), (images.reshape(-1, 8, 8).max(axis=1) > 0.5).sum(axis=1)
captions = [
    f"a {'bold' if bold else 'thin'} {'wide' if wide else 'narrow'} handwritten {words[label]}"
    for bold, wide, label in zip(ink > np.median(ink), width > np.median(width), labels, strict=True)
]
print(*captions[:4], sep="\n")

# %%
# Two independent encoders: principal components of pixels, and of the letters of words.

see = PCA(40, random_state=0).fit(images)
letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4))
read = make_pipeline(letters, TruncatedSVD(24, random_state=0)).fit(captions)
pictures, texts = see.transform(images), read.transform(captions)
prompts = [f"a handwritten {word}" for word in words]
asked = read.transform(prompts)

test = np.arange(1000, len(images))
counts, accuracies = (10, 20, 50, 100, 200, 500, 1000), []
for k in counts:
    asif = rl.ASIF(top=100).fit(pictures[:k], texts[:k])
    accuracies.append(np.mean(asif.predict(pictures[test], asked) == labels[test]))

# %%
# Left: accuracy by the number of captioned images; chance is 10 %. Right: scores of the prompts for some images.

examples = [int(np.flatnonzero(labels[test] == digit)[1]) for digit in (0, 3, 4, 6, 9)]
shares = asif.predict_proba(pictures[test][examples], asked)

figure = plt.figure(figsize=(11.5, 4.6))
curve, bars = figure.subfigures(1, 2, width_ratios=[1, 1.15])
axes = curve.subplots()
axes.plot(counts, accuracies, marker="o")
axes.axhline(0.1, color="C7", linewidth=1, linestyle=":")
axes.text(10, 0.12, "chance", color="C7")
axes.set(xscale="log", ylim=(0, 1), xlabel="captioned images", title="zero-shot accuracy")
axes.set_xticks(counts, [str(k) for k in counts])
axes.minorticks_off()
axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
for (image, bar), row, share in zip(bars.subplots(5, 2, width_ratios=[1, 4]), examples, shares, strict=True):
    image.imshow(images[test][row].reshape(8, 8), cmap="gray_r")
    image.set(xticks=[], yticks=[])
    image.spines[:].set_visible(False)
    best = np.argsort(-share)[:3][::-1]
    bar.barh(range(3), share[best], color=["C5", "C5", "C0"])
    bar.set_yticks(range(3), [words[i] for i in best])
    bar.set(xlim=(0, max(0.5, shares.max() * 1.05)), xticks=[])
    bar.spines[:].set_visible(False)
plt.show()
