"""Logistic regression by scikit-learn, for the tests of js/api/classifiers/train.js.

    python tests/golden/make_heads.py

Writes tests/golden/heads/regression.json: rows, classes, and the weights and biases of the optimum for two penalties.
"""

import json
import os

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression

OUT = f"{os.path.dirname(os.path.abspath(__file__))}/heads"
rng = np.random.default_rng(3)
centres = rng.normal(size=(4, 6))
classes = np.arange(80) % 4
rows = np.round(centres[classes] + rng.normal(size=(80, 6)), 3)

fits = []
for penalty in (1.0, 0.05):
    fit = LogisticRegression(C=1 / penalty, tol=1e-12, max_iter=10000).fit(rows, classes)
    fits.append({"penalty": penalty, "weights": fit.coef_.tolist(), "bias": fit.intercept_.tolist()})
os.makedirs(OUT, exist_ok=True)
with open(f"{OUT}/regression.json", "w") as f:
    json.dump({"made": f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}", "rows": rows.tolist(), "classes": classes.tolist(), "fits": fits}, f)
