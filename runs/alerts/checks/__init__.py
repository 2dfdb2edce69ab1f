"""Judging each rule: from rows to findings. A check reads and writes nothing."""
