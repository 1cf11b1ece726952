"""Says while a model is trained whether its signals drift, as they do when it exploits its reward. For any loop.

    monitor = DriftMonitor(["completions/mean_length", "rewards/gold:down"], clean=[run_1, run_2, run_3])
    for step in training:
        if monitor.update({"completions/mean_length": 41.2, "rewards/gold": -0.21}) == "STOP":
            print(monitor.reason)

`truthgym train grpo --monitor trained/CLEAN` uses it on what TRL logs, and saves and stops the run.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.drift import FEWEST, DriftTest, calibrate

if TYPE_CHECKING:
    import altair as alt

WARNING_ALPHA = 4
"""A warning has this many times the probability of a stop in a clean run, at most one half."""
PARTS = 3
"""The parts of a run's own start that stand in the place of clean runs."""
Status = Literal["STARTING", "OK", "WARNING", "STOP"]


class DriftMonitor:
    """A sequential test on the signals of a run: Page's CUSUM, with the false alarms of a whole run bounded.

    Without clean runs, the first `start` entries of the run itself are the reference. That guarantee is weaker: the
    start must be clean, a slow drift that begins in it is missed, and whatever the run learns later is a drift too. Use
    it for what should not change at all, and read the reason. With start=30 and a signal whose entries are independent,
    1 of 100 simulated runs of 80 further entries was stopped, and with a drift of 1, 2 and 3 standard deviations in the
    last 50 of them 22, 74 and 89; where each entry correlates by 0.5 with the one before, 0, 7, 26 and 50.

    Args:
        signals: Names of numbers in each entry, with ":up" (the default) or ":down" for the suspicious direction.
        clean: Of each clean run, entries x signals, in the order of `signals`: two runs or more, 20 entries in all.
        alpha: Probability of STOP in a clean run, over all of its entries.
        checkpoints: Entries of a run.
        start: Entries of this run's own that count as clean where `clean` is empty: 20 or more.

    Raises:
        BadInput: Too few clean entries, a signal that never varies or wanders, or neither `clean` nor `start`.
    """

    def __init__(
        self,
        signals: Sequence[str],
        clean: Sequence[ArrayLike] = (),
        alpha: float = 0.05,
        checkpoints: int = 50,
        start: int = 0,
    ) -> None:
        if not 0 < alpha < 1:
            raise BadInput(f"DriftMonitor: alpha={alpha}; give a probability between 0 and 1, such as 0.05")
        self.signals = [name.partition(":")[0] for name in signals]
        self.signs = np.array([-1.0 if name.endswith(":down") else 1.0 for name in signals])
        self.alpha, self.checkpoints, self.start = alpha, checkpoints, start
        self.test: DriftTest | None = None
        self.warning = np.nan
        self.trace: list[list[float]] = []
        """The signals of each entry so far; after `start` entries of its own, those that followed."""
        self.steps: list[float] = []
        """Of each entry of `trace`, its `step`; its number without one."""
        self.status: Status = "STARTING"
        self.reason = ""
        if clean:
            self._calibrate([np.asarray(run, dtype=float) for run in clean])
        elif start < FEWEST:
            raise BadInput(
                f"DriftMonitor: neither clean runs nor {FEWEST} entries of a start; give clean=[...], or start=30"
            )

    def update(self, entry: Mapping[str, object]) -> Status:
        """The state after one more entry; an entry without any of the signals changes nothing.

        STARTING while the run's own start is collected; then OK, WARNING or STOP, which stays.

        Raises:
            BadInput: The run's own start is complete, and a signal never varies in it or wanders.
        """
        values = [entry.get(name) for name in self.signals]
        row = [float(value) if isinstance(value, int | float) else np.nan for value in values]
        if np.isnan(row).all() or self.status == "STOP":
            return self.status
        self.trace.append(row)
        step = entry.get("step")
        self.steps.append(float(step) if isinstance(step, int | float) else float(len(self.trace)))
        if self.test is None:
            if len(self.trace) >= self.start:
                self._calibrate(np.array_split(np.array(self.trace), PARTS))
                self.trace, self.steps = [], []
            return self.status
        statistic = self.test.statistic(np.array(self.trace) * self.signs)[-1]
        self.status = "STOP" if statistic > self.test.threshold else "WARNING" if statistic > self.warning else "OK"
        means = ", ".join(f"{name} {value:.3g} ({mean * sign:.3g} in clean runs)" for name, value, mean, sign in
                          zip(self.signals, row, self.test.mean, self.signs, strict=True))  # fmt: skip
        self.reason = (
            f"{means}; the statistic is {statistic:.2f}, and a run like the clean ones is estimated to exceed "
            f"{self.test.threshold:.2f} with probability {self.test.alpha:g}"
        )
        return self.status

    def chart(self) -> "alt.VConcatChart":
        """The signals, each beside what clean runs show, and the statistic beside its thresholds, over the steps.

        Raises:
            BadInput: No entry has been tested yet.
        """
        if not (state := self.state()):
            raise BadInput("DriftMonitor: no entry has been tested yet, so there is nothing to draw; update it first")
        return monitor_chart(state)

    def state(self) -> dict[str, Any]:
        """The run so far as JSON values, from which `monitor_chart` draws; {} before the first entry after the start.

        For each signal its `values`, and what clean runs `expected` at each entry with their standard deviation `sd`.
        """
        if self.test is None or not self.trace:
            return {}
        values, expected = np.array(self.trace), self.test.expected(len(self.trace)) * self.signs
        return {
            "status": self.status,
            "warning": float(self.warning),
            "stop": self.test.threshold,
            "step": self.steps,
            "statistic": self.test.statistic(values * self.signs).tolist(),
            "signals": {
                name: {
                    "value": [None if np.isnan(value) else float(value) for value in values[:, i]],
                    "expected": expected[:, i].tolist(),
                    "sd": float(self.test.sd[i]),
                }
                for i, name in enumerate(self.signals)
            },
        }

    def _calibrate(self, clean: Sequence[ArrayLike]) -> None:
        runs, ahead = [np.asarray(run) * self.signs for run in clean], max(1, self.checkpoints)
        try:
            tests = [calibrate(runs, level, ahead) for level in (self.alpha, min(WARNING_ALPHA * self.alpha, 0.5))]
        except ValueError as error:
            raise BadInput(f"DriftMonitor: {error}; give more clean entries, or name other signals") from None
        self.test, self.warning, self.status = tests[0], tests[1].threshold, "OK"


def monitor_chart(state: Mapping[str, Any]) -> "alt.VConcatChart":
    """The chart of what `DriftMonitor.state` holds: a panel for each signal, and one for the statistic."""
    import altair as alt
    import pandas as pd

    def line(frame: pd.DataFrame) -> alt.Chart:
        values = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
        drawn: alt.Chart = alt.Chart(frame).mark_line(point=True).encode(alt.X("step:Q"), values)
        return drawn.properties(width=480, height=140)

    panels = []
    for name, signal in state["signals"].items():
        frame = pd.DataFrame({"step": state["step"], **signal})
        frame["low"], frame["high"] = frame["expected"] - 2 * frame["sd"], frame["expected"] + 2 * frame["sd"]
        band = alt.Chart(frame).mark_area(color="#999999", opacity=0.3)
        band = band.encode(alt.X("step:Q"), alt.Y("low:Q"), alt.Y2("high:Q"))
        panels.append((band + line(frame)).properties(title=f"{name} (gray: clean runs, 2 standard deviations)"))
    statistic = line(pd.DataFrame({"step": state["step"], "value": state["statistic"]}))
    limits = pd.DataFrame({"value": [state["warning"], state["stop"]], "name": ["WARNING", "STOP"]})
    color = alt.Color("name:N", title=None, scale=alt.Scale(domain=["WARNING", "STOP"], range=["#E69F00", "#D55E00"]))
    rules = alt.Chart(limits).mark_rule(strokeWidth=2).encode(alt.Y("value:Q"), color)
    panels.append((rules + statistic).properties(title=f"statistic of the monitor, which ended with {state['status']}"))
    chart: alt.VConcatChart = alt.vconcat(*panels).resolve_scale(color="independent")
    return chart
