"""The numbers of a run, kept as it goes: over what was scored, never over what was masked, failed or not reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rollgym.driver.bounded_counter import BoundedCounter
from rollgym.driver.durations import Durations
from rollgym.driver.intervals import ClusteredMean
from rollgym.driver.materialized import Key
from rollgym.driver.outcomes import Failed, Timings
from rollgym.driver.rollout_facts import RolloutFacts, Tokens
from rollgym.driver.rollout_perf import DispatchLatencyTracker

MOST_TAG_VALUES = 100
SHOWN_KEYS = 10


@dataclass
class TokenSum:
    """A sum of tokens with what it is over: rollouts that reported the number. Absent where none did."""

    total: int = 0
    rollouts: int = 0

    def add(self, tokens: int | None) -> None:
        if tokens is not None:
            self.total += tokens
            self.rollouts += 1


def _no_tokens() -> dict[str, TokenSum]:
    return {"input": TokenSum(), "output": TokenSum(), "cached": TokenSum(), "reasoning": TokenSum()}


def _add_tokens(sums: dict[str, TokenSum], tokens: Tokens) -> None:
    sums["input"].add(tokens.input)
    sums["output"].add(tokens.output)
    sums["cached"].add(tokens.cached)
    sums["reasoning"].add(tokens.reasoning)


@dataclass
class RunStatistics:
    """Every figure that the summary, the head and the aggregate file show. Grows with tasks and tags, not rollouts."""

    rewards: ClusteredMean = field(default_factory=ClusteredMean)
    by_tag: dict[tuple[str, str], ClusteredMean] = field(default_factory=dict)
    by_agent: dict[str, ClusteredMean] = field(default_factory=dict)
    masked_kinds: BoundedCounter = field(default_factory=BoundedCounter)
    scored_with_failure: BoundedCounter = field(default_factory=BoundedCounter)
    """Scored rollouts with an error beside their reward, by `failure_kind`."""
    truncated: int = 0
    never_ran: int = 0
    never_ran_keys: list[Key] = field(default_factory=list)
    failed_attempts: BoundedCounter = field(default_factory=BoundedCounter)
    failure_messages: BoundedCounter = field(default_factory=BoundedCounter)
    latency: DispatchLatencyTracker = field(default_factory=DispatchLatencyTracker)
    admission: Durations = field(default_factory=Durations)
    session_wait: Durations = field(default_factory=Durations)
    tokens: dict[str, TokenSum] = field(default_factory=_no_tokens)
    failed_tokens: dict[str, TokenSum] = field(default_factory=_no_tokens)
    rows: int = 0
    rows_with_perf: int = 0
    rows_with_token_coverage: int = 0

    def add_row(self, key: Key, facts: RolloutFacts) -> None:
        """A row of the results, of this start of the run or an earlier one."""
        self.rows += 1
        _add_tokens(self.tokens, facts.tokens)
        if facts.perf is not None:
            self.rows_with_perf += 1
            coverage = facts.perf.get("token_observability_coverage")
            self.rows_with_token_coverage += isinstance(coverage, int | float) and coverage > 0
        self.truncated += facts.truncated
        if facts.never_ran:
            self.never_ran += 1
            if len(self.never_ran_keys) < SHOWN_KEYS:
                self.never_ran_keys.append(key)
        if facts.masked or facts.reward is None:
            self.masked_kinds.count_one(facts.failure_kind or "unspecified")
            return
        if facts.failure_kind is not None:
            self.scored_with_failure.count_one(facts.failure_kind)
        self.rewards.add(key[0], facts.reward)
        self.by_agent.setdefault(facts.agent, ClusteredMean()).add(key[0], facts.reward)
        for name, value in facts.tags.items():
            self._tag(name, value).add(key[0], facts.reward)

    def _tag(self, name: str, value: str) -> ClusteredMean:
        if (name, value) not in self.by_tag and sum(known == name for known, _ in self.by_tag) >= MOST_TAG_VALUES:
            value = "(other)"
        return self.by_tag.setdefault((name, value), ClusteredMean())

    def add_timings(self, timings: Timings) -> None:
        """A rollout that got its row in this start of the run."""
        self.latency.record(timings.rollout_s)
        self.admission.add(timings.admission_s)
        if timings.session_s is not None:
            self.session_wait.add(timings.session_s)

    def add_failed_attempt(self, failed: Failed) -> None:
        self.failed_attempts.count_one(failed.failure_class)
        self.latency.record_failure(failed.timings.rollout_s)
        message = failed.shown_message.splitlines()[0][:200] if failed.message else failed.failure_class
        self.failure_messages.count_one(message)
        _add_tokens(self.failed_tokens, failed.tokens)

    def tag_rows(self) -> Iterator[tuple[str, str, ClusteredMean]]:
        """Tags and their means, by tag name and then value."""
        for (name, value), mean in sorted(self.by_tag.items()):
            yield name, value, mean
