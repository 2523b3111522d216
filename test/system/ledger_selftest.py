#!/usr/bin/env python3
"""The books that judge the bridge can themselves find it guilty: every way to lose, double or invent a frame."""

import harness
import pytest
from bridge_client import Ledger, ProtocolError


def ledger_of(*entries):
    ledger = Ledger("test")
    for entry in entries:
        if len(entry) == 2:
            ledger.add_frame(*entry, "digest")
        else:
            ledger.add_gap(*entry)
    return ledger


def test_frames_and_gaps_that_meet_without_a_seam_are_whole():
    ledger = ledger_of((7, 1), (7, 2, 4, "QUEUE", 3), (7, 5), (7, 6, 9, "SOURCE", 0), (7, 10), (7, 0, 0, "EPOCH", 0), (8, 1))
    assert (ledger.frames, ledger.lost, dict(ledger.gaps), dict(ledger.explained)) == (4, 3, {"QUEUE": 3}, {"SOURCE": 4})
    assert ledger.covers(8, 1, 1) and not ledger.covers(8, 1, 2) and not ledger.covers(7, 1, 10)


def test_a_gap_may_hold_numbers_that_never_were_frames():
    assert ledger_of((7, 1), (7, 2, 9, "EVICTED", 5), (7, 10)).lost == 5


@pytest.mark.parametrize("entries", [
    [(7, 1), (7, 3)],                                        # 2 vanished
    [(7, 1), (7, 1)],                                        # 1 came twice
    [(7, 2), (7, 1)],                                        # out of order
    [(7, 1), (7, 3, 3, "QUEUE", 1)],                         # 2 vanished before a gap
    [(7, 1), (7, 1, 2, "QUEUE", 2)],                         # a gap over what came
    [(7, 1), (7, 2, 4, "QUEUE", 3), (7, 4, 5, "AGE", 2)],    # gaps overlap
    [(7, 1), (7, 2, 4, "QUEUE", 3), (7, 4)],                 # a frame that was said to be lost
    [(7, 1), (7, 2, 4, "QUEUE", 4)],                         # more lost than numbers
    [(7, 1), (7, 4, 2, "QUEUE", 1)],                         # ends before it begins
    [(7, 1), (7, 2, 4, "SOURCE", 1)],                        # explains numbers and counts a loss
    [(7, 1), (7, 1, 1, "EPOCH", 0)],                         # EPOCH has no numbers
    [(7, 1), (8, 1), (7, 2)],                                # an epoch comes again
], ids=str)
def test_whatever_is_unaccounted_for_raises(entries):
    with pytest.raises(ProtocolError):
        ledger_of(*entries)


class FakeBridge:
    """Figures as the admin pages give them."""

    def __init__(self, channel=None, subscription=None, metrics=None):
        figures = {"received": 3, "published": 2, "duplicate": 1, "rejected": 0}
        self.channels = [{"name": "a", **figures, **(channel or {})}]
        self.subscriptions = [{"promised": 5, "delivered": 3, "skipped": 1, "lost": 1, "waiting": 0, "gaps": {"QUEUE": 1},
                               **(subscription or {})}]
        self._metrics = {f"simbridge_session_{name}_frames_total": value for name, value in figures.items()}
        self._metrics.update({"simbridge_frame_charged_bytes": 1, "simbridge_frame_budget_bytes": 2, **(metrics or {})})

    def api(self, page):
        return getattr(self, page)

    def metrics(self):
        return self._metrics


def test_books_that_balance_are_found_so():
    assert harness.imbalances(FakeBridge()) == []


@pytest.mark.parametrize("wrong", [
    {"channel": {"received": 4}},
    {"subscription": {"delivered": 4}},
    {"subscription": {"delivered": 2, "waiting": 1}},
    {"subscription": {"gaps": {}}},
    {"metrics": {"simbridge_session_published_frames_total": 3}},
    {"metrics": {"simbridge_frame_charged_bytes": 3}},
], ids=str)
def test_books_that_do_not_are_found_too(wrong):
    assert len(harness.imbalances(FakeBridge(**wrong))) == 1


if __name__ == "__main__":
    harness.main(__file__)
