#!/usr/bin/env python3
"""Minutes, label soak: scripts/verify.sh soak. The short versions stand in faults_test.py and frames_test.py."""

import harness
from harness import Bridge, MiB, assert_nobody_left
from scenarios import play_slow_consumer, play_stalled_consumer


def test_a_consumer_that_stops_reading_for_a_minute_costs_the_others_nothing():
    with Bridge({"frame.budget_bytes": 128 * MiB}) as bridge:
        harness.run(play_stalled_consumer(bridge, 60), 200)
        assert_nobody_left(bridge)


def test_memory_stays_flat_for_ten_minutes_with_a_fast_producer_and_a_slow_consumer():
    """peers.md 58."""
    budget = 256 * MiB
    with Bridge({"frame.budget_bytes": budget}) as bridge:
        harness.run(play_slow_consumer(bridge, 600, budget), 900)
        assert_nobody_left(bridge)


if __name__ == "__main__":
    harness.main(__file__)
