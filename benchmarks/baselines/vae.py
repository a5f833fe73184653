"""A variational autoencoder per metric, in numpy: it learns what a healthy host's series of eight points looks like.

After Minder (Deng et al., NSDI 2025): a model for each metric, trained on healthy data beforehand, removes noise; then
machines are compared by the distance between their cleaned series. Ours is a perceptron and not an LSTM (one hidden
layer each way: series of eight points), and its points are the ten-second means that all baselines are given.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.baselines import LEAST, Features, Floats

POINTS, HIDDEN, LATENT = 8, 16, 4
ROUNDS, RATE, WEIGHT = 400, 0.01, 0.02  # of training; weight of the latent's own loss
BATCH = 256
FIRST_SEED, SITES, HOSTS = 50_000, 2, 16  # healthy sites of the tune split that it is trained on


@dataclass(frozen=True, slots=True)
class Model:
    """Weights of all metrics at once: float64 [metrics, in, out] each."""

    into: Floats
    middle: Floats
    spread: Floats
    back: Floats
    out: Floats

    def cleaned(self, series: Floats) -> Floats:
        """float64 [metrics, n, points] -> the same, as the mean of the latent says."""
        latent = np.tanh(series @ self.into) @ self.middle
        found: Floats = np.tanh(latent @ self.back) @ self.out
        return found


def series_of(features: Features) -> Floats:
    """float64 [metrics, windows, hosts, points]: every stretch of eight windows, each value from its middle over all
    hosts, in units of the differences that are nothing."""
    values = np.moveaxis(np.clip(features.kept("apart", _apart), -20, 20), 2, 0)
    windows = values.shape[1] - POINTS + 1
    if windows < 1:
        return np.empty((values.shape[0], 0, values.shape[2], POINTS))
    return np.stack([values[:, place : place + windows] for place in range(POINTS)], axis=3)


def _apart(features: Features) -> Floats:
    least = np.array([LEAST[one.partition(".")[2]] for one in features.columns])
    told = ~np.isnan(features.mean)
    middle = np.nanmedian(np.where(told.any(axis=1, keepdims=True), features.mean, 0.0), axis=1, keepdims=True)
    found: Floats = np.nan_to_num((features.mean - middle) / least) / 4
    return found


def train(series: Floats, seed: int = 0) -> Model:
    """Adam on reconstruction and the latent's divergence from a normal one; float64 [metrics, n, points]."""
    rng = np.random.default_rng(seed)
    metrics, number, points = series.shape
    shapes = {"into": (points, HIDDEN), "middle": (HIDDEN, LATENT), "spread": (HIDDEN, LATENT),
              "back": (LATENT, HIDDEN), "out": (HIDDEN, points)}  # fmt: skip
    weights = {name: rng.standard_normal((metrics, *shape)) / np.sqrt(shape[0]) for name, shape in shapes.items()}
    first, second = ({name: np.zeros_like(one) for name, one in weights.items()} for _ in range(2))
    for turn in range(1, ROUNDS + 1):
        batch = series[:, rng.integers(number, size=min(BATCH, number))]
        slopes = gradient(weights, batch, rng.standard_normal((metrics, batch.shape[1], LATENT)))
        for name, slope in slopes.items():
            first[name] = 0.9 * first[name] + 0.1 * slope
            second[name] = 0.999 * second[name] + 0.001 * slope**2
            step = first[name] / (1 - 0.9**turn) / (np.sqrt(second[name] / (1 - 0.999**turn)) + 1e-8)
            weights[name] = weights[name] - RATE * step
    return Model(**weights)


def loss(weights: dict[str, Floats], batch: Floats, noise: Floats) -> float:
    """What training makes small."""
    hidden = np.tanh(batch @ weights["into"])
    middle, spread = hidden @ weights["middle"], hidden @ weights["spread"]
    latent = middle + np.exp(spread / 2) * noise
    out = np.tanh(latent @ weights["back"]) @ weights["out"]
    divergence = 0.5 * (np.exp(spread) + middle**2 - 1 - spread).sum(axis=2)
    return float((((out - batch) ** 2).sum(axis=2) / 2 + WEIGHT * divergence).mean(axis=1).sum())


def gradient(weights: dict[str, Floats], batch: Floats, noise: Floats) -> dict[str, Floats]:
    """The slope of `loss` by every weight."""
    number = batch.shape[1]
    hidden = np.tanh(batch @ weights["into"])
    middle, spread = hidden @ weights["middle"], hidden @ weights["spread"]
    width = np.exp(spread / 2)
    latent = middle + width * noise
    shown = np.tanh(latent @ weights["back"])
    wrong = (shown @ weights["out"] - batch) / number
    by_shown = (wrong @ _turned(weights["out"])) * (1 - shown**2)
    by_latent = by_shown @ _turned(weights["back"])
    by_middle = by_latent + WEIGHT * middle / number
    by_spread = by_latent * noise * width / 2 + WEIGHT * 0.5 * (np.exp(spread) - 1) / number
    by_hidden = (by_middle @ _turned(weights["middle"]) + by_spread @ _turned(weights["spread"])) * (1 - hidden**2)
    return {
        "into": _turned(batch) @ by_hidden, "middle": _turned(hidden) @ by_middle,
        "spread": _turned(hidden) @ by_spread, "back": _turned(latent) @ by_shown, "out": _turned(shown) @ wrong,
    }  # fmt: skip


def _turned(values: Floats) -> Floats:
    found: Floats = np.swapaxes(values, 1, 2)
    return found


@cache
def healthy() -> Model:
    """The model of healthy sites: the same in every process."""
    from benchmarks.accuracy.window import healthy_features

    parts = [series_of(healthy_features(FIRST_SEED + place, HOSTS)) for place in range(SITES)]
    series = np.concatenate([one.reshape(one.shape[0], -1, POINTS) for one in parts], axis=1)
    return train(series)


def distances(features: Features) -> Floats:
    """float64 [metrics x windows, hosts]: mean distance of a host's cleaned series to those of the others."""
    series = series_of(features)
    metrics, windows, hosts, points = series.shape
    cleaned = healthy().cleaned(series.reshape(metrics, windows * hosts, points))
    flat = cleaned.reshape(metrics * windows, hosts, points)
    square = (flat**2).sum(axis=2)
    apart = square[:, :, None] + square[:, None, :] - 2 * flat @ np.swapaxes(flat, 1, 2)
    found: Floats = np.sqrt(np.maximum(apart, 0.0)).sum(axis=2) / max(1, hosts - 1)
    return found
