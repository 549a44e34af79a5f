"""Ports are handed out once, whoever else asks at the same time."""

import socket
import subprocess
import sys

from devcluster.ports import LOOPBACK, RANGE, free_ports

MANY = 200
ASK_AND_HOLD = f"""
import sys
from devcluster.ports import free_ports
print(*free_ports({MANY}), flush=True)
sys.stdin.read()
"""


def test_processes_that_ask_at_the_same_time_never_get_the_same_port() -> None:
    askers = [
        subprocess.Popen([sys.executable, "-c", ASK_AND_HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    ours = free_ports(MANY)
    theirs: list[int] = []
    # All lines before the first end: a process that has ended gives its ports back.
    for asker in askers:
        assert asker.stdout is not None
        theirs += [int(each) for each in asker.stdout.readline().split()]
    for asker in askers:
        asker.communicate()
    assert len(theirs) == 2 * MANY
    assert len({*ours, *theirs}) == 3 * MANY


def test_a_port_is_given_to_one_caller_only_also_within_a_process() -> None:
    first, second = free_ports(MANY), free_ports(MANY)
    assert len({*first, *second}) == 2 * MANY
    assert {*first, *second} <= set(RANGE)


def test_every_port_can_be_listened_on() -> None:
    for port in free_ports(5):
        with socket.socket() as server:
            server.bind((LOOPBACK, port))
