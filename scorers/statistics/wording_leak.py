"""Does the wording of a question tell its outcome? AUC of words and of style on unseen events, against permutations."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.interval import cluster_codes

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
FOLDS, REPEATS = 10, 3
PERMUTATIONS = 500
LEVEL = 0.95
"""Share of the permuted AUCs below `upper`, and above `lower`."""
MOST = 2000
"""Most texts that are used; of more, so many are drawn."""
LEAST = 20
"""Fewest texts and fewest groups with an AUC."""
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


def _listed(words: str) -> Callable[[str], int]:
    pattern = re.compile(rf"\b(?:{'|'.join(words.split())})\b", re.IGNORECASE)
    return lambda text: len(pattern.findall(text))


STYLE: dict[str, Callable[[str], float]] = {
    "characters": len,
    "words": lambda text: len(WORD.findall(text)),
    "sentences": lambda text: len(re.findall(r"[.!?;](?:\s|$)", text)),
    "letters in a word": lambda text: float(np.mean([len(word) for word in WORD.findall(text)] or [0])),
    "commas": lambda text: text.count(","),
    "digits": lambda text: sum(character.isdigit() for character in text),
    "capitals": lambda text: sum(character.isupper() for character in text),
    "denials": _listed("no not none neither nor never nothing without cannot otherwise only unless fail fails"),
    "widening": _listed("any anything whatever whichever even either all every matter matters some"),
    "hedges": _listed("may might can could about nearly almost likely often mostly usually rather perhaps"),
    "modals": _listed("must need needs should would will shall required enough count counts"),
    "contrast": _listed("but though although while if instead yet still also or"),
}
"""Counts of form. The lists of words are English: in other languages they count nothing."""


@dataclass(frozen=True)
class Leak:
    """How well a classifier orders unseen events by outcome.

    NaN with fewer than 20 groups, with one outcome, or if permutations leave all outcomes where they are.
    """

    auc: float
    """Probability that a question with the outcome yes is ranked above one with no, in [0, 1]. 0.5 tells nothing."""
    lower: float
    """5 % quantile of the AUC with permuted outcomes."""
    upper: float
    """95 % quantile of the AUC with permuted outcomes: an AUC above it is a leak at the 5 % level."""
    p_value: float
    """Share of permutations with an AUC at least as large, the observed one included."""
    n: int

    @property
    def found(self) -> bool:
        """Whether the wording tells the outcome at the 5 % level."""
        return self.auc > self.upper


def wording_leak(
    texts: Sequence[str],
    outcomes: ArrayLike,
    groups: Sequence[Hashable] | None = None,
    seed: int = 0,
    strata: Sequence[Hashable] | None = None,
) -> dict[str, Leak]:
    r"""Measure how well outcomes can be predicted from wording alone: AUC and null of "words" and of "style".

    Two ridge regressions of the outcome: on words and pairs of words (TF-IDF, rows of length 1), and on the counts in
    `STYLE` (standardised). Each is fitted on nine tenths of the groups and ranks the texts of the last tenth, so that
    no text is ranked by another one of its group. All numbers count as one word. Predictions are linear in the
    outcomes,

    $$\hat y_{test}=K_{test,train}(K_{train,train}+\lambda I)^{-1}y_{train}$$

    with K the inner products of features centred by the means of the training texts: permuted outcomes cost a product
    of matrices. The AUC is the mean over three random partitions into folds. Outcomes are permuted between groups
    (events) of one size in one stratum (subject), so that base rates of subjects are no leak; if all sizes differ,
    there is no null, and all figures are NaN. With k texts of each outcome the null has a standard deviation of about
    $1/\sqrt{6k}$. An AUC inside the null does not show that no reader can tell.
    """
    y = np.asarray(outcomes, dtype=float).ravel()
    names: Sequence[Hashable] = range(y.size) if groups is None else groups
    subjects: Sequence[Hashable] = [None] * y.size if strata is None else strata
    if not len(texts) == y.size == len(names) == len(subjects):
        raise ValueError(
            f"wording_leak: {len(texts)} texts, {y.size} outcomes, {len(names)} groups, {len(subjects)} strata; "
            "give one each"
        )
    if not np.isin(y[np.isfinite(y)], (0, 1)).all():
        raise ValueError("wording_leak: outcomes must be 0, 1 or NaN")
    rng = np.random.default_rng(seed)
    used = np.flatnonzero(np.isfinite(y))
    if used.size > MOST:
        used = np.sort(rng.choice(used, MOST, replace=False))
    y, code = y[used], cluster_codes([names[int(i)] for i in used])
    kept = [texts[int(i)] for i in used]
    unknown = dict.fromkeys(("words", "style"), Leak(np.nan, np.nan, np.nan, np.nan, y.size))
    if np.unique(code).size < LEAST or np.unique(y).size < 2:
        return unknown
    folds = [(rng.permutation(code.max() + 1) % FOLDS)[code] for _ in range(REPEATS)]
    blocks = _blocks(code, cluster_codes([subjects[int(i)] for i in used]))
    labels = np.column_stack([y, *(_permuted(y, blocks, rng) for _ in range(PERMUTATIONS))])
    if (labels == labels[:, :1]).all():
        return unknown
    words, style = _words(kept), _style(kept)
    kernels = {"words": ((words @ words.T).toarray(), 1.0), "style": (style @ style.T, y.size / 10)}
    return {name: _leak(kernel, ridge, folds, labels) for name, (kernel, ridge) in kernels.items()}


def _leak(kernel: Floats, ridge: float, folds: Sequence[NDArray[np.intp]], labels: Floats) -> Leak:
    """Args: inner products of the texts (n x n); folds of each partition; labels (n x 1 + permutations)."""
    auc = np.mean([area(predictions(kernel, fold, ridge) @ labels, labels) for fold in folds], axis=0)
    null = auc[1:]
    lower, upper = np.quantile(null, [1 - LEVEL, LEVEL])
    return Leak(float(auc[0]), float(lower), float(upper), float(np.mean(auc >= auc[0])), len(kernel))


def predictions(kernel: Floats, fold: NDArray[np.intp], ridge: float) -> Floats:
    """The matrix that maps outcomes to held-out predictions, up to a constant for each fold (n x n)."""
    linear = np.zeros_like(kernel)
    for number in np.unique(fold):
        test, train = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        inner = kernel[np.ix_(train, train)]
        mean = inner.mean(axis=0)
        centred = inner - mean - mean[:, None] + mean.mean()
        across = kernel[np.ix_(test, train)]
        across = across - across.mean(axis=1, keepdims=True) - mean + mean.mean()
        linear[np.ix_(test, train)] = np.linalg.solve(centred + ridge * np.eye(train.size), across.T).T
    return linear


def area(scores: Floats, labels: Floats) -> Floats:
    """Area under the ROC curve of each column of scores for the labels 0 and 1 in the same column."""
    from scipy.stats import rankdata

    ranks, positive = rankdata(scores.round(10), axis=0), labels.sum(axis=0)
    wins = np.sum(ranks * labels, axis=0) - positive * (positive + 1) / 2
    return np.asarray(wins / (positive * (len(labels) - positive)))


def _permuted(y: Floats, blocks: Sequence[NDArray[np.intp]], rng: np.random.Generator) -> Floats:
    """Outcomes of each group given to another group of its size."""
    permuted = y.copy()
    for rows in blocks:
        permuted[rows] = y[rng.permutation(rows)]
    return permuted


def _blocks(code: NDArray[np.intp], stratum: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """For each size of group in each stratum the rows of its groups (groups x size)."""
    size, order = np.bincount(code), np.argsort(code, kind="stable")
    first = np.cumsum(size) - size
    kind = stratum[order[first]]
    return [
        order[first[(size == n) & (kind == k)][:, None] + np.arange(n)]
        for n, k in sorted(set(zip(size.tolist(), kind.tolist(), strict=True)))
    ]


def _words(texts: Sequence[str]) -> "csr_array":
    """TF-IDF of words and pairs of words that stand in two or more texts; a row per text, of length 1."""
    from scipy.sparse import csr_array

    bags = []
    for text in texts:
        words = ["#" if word.isdigit() else word for word in WORD.findall(text.lower())]
        bags.append({*words, *pairwise(words)})
    documents = Counter(term for bag in bags for term in bag)
    column = {term: i for i, term in enumerate(sorted((t for t in documents if documents[t] > 1), key=str))}
    cells = [(row, column[term], documents[term]) for row, bag in enumerate(bags) for term in bag if term in column]
    row, col, count = np.array(cells or [(0, 0, 1)], dtype=np.intp).T
    weight = np.log((1 + len(texts)) / (1 + count)) + 1
    length = np.sqrt(np.bincount(row, weight**2, minlength=len(texts)))
    return csr_array((weight / length[row], (row, col)), shape=(len(texts), max(len(column), 1)))


def _style(texts: Sequence[str]) -> Floats:
    counts = np.array([[count(text) for count in STYLE.values()] for text in texts], dtype=float)
    spread = counts.std(axis=0)
    return np.asarray((counts - counts.mean(axis=0)) / np.where(spread > 0, spread, 1))
