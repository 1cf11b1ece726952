"""The metrics of a server, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from truthgym.serve.service.scoring import Result

REWARDS = tuple(i / 10 for i in range(-10, 11))


class ServerMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("truthgym_requests", "Requests", ["endpoint", "status"], registry=self.registry)
        self.seconds = Histogram(
            "truthgym_request_seconds", "Time to answer a request", ["endpoint"], registry=self.registry,
            buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120),
        )  # fmt: skip
        self.items = Counter("truthgym_items", "Scored items by outcome: scored, or why not", ["outcome"],
                             registry=self.registry)  # fmt: skip
        self.rewards = Histogram("truthgym_reward", "Rewards given", buckets=REWARDS, registry=self.registry)
        self.queue = Gauge("truthgym_queue", "Items that are scored or wait", registry=self.registry)
        self.judge_errors = Counter(
            "truthgym_judge_errors", "Attempts in which the judge failed", registry=self.registry
        )
        self.canaries = Histogram("truthgym_canary_rise", "Rise of the reward when a reply asks for full marks",
                                  buckets=REWARDS, registry=self.registry)  # fmt: skip
        self.fallbacks = Counter(
            "truthgym_fallbacks", "Items scored by the global rubric for want of their own", registry=self.registry
        )
        self.failed_canaries = Counter("truthgym_failed_canaries", "Canaries without a reward", registry=self.registry)

    def count(self, result: Result) -> None:
        """Count a scored item, once however many requests ask for it."""
        self.items.labels(result.code or "scored").inc()
        if result.reward is not None:
            self.rewards.observe(result.reward)
        if result.fallback:
            self.fallbacks.inc()
        if result.canary is not None:
            self.canaries.observe(result.canary)

    def text(self) -> bytes:
        """All of them in Prometheus' format."""
        return generate_latest(self.registry)
