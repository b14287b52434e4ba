"""`muster store` with PyTorch's own clients, 2.13 and 1.13: their whole store API."""

import re
import signal
import subprocess

import pytest
from harness import clean_env

pytestmark = pytest.mark.interop

PRELUDE = """
import sys, threading, time
from datetime import timedelta
import torch
from torch.distributed import TCPStore, PrefixStore
PORT = int(sys.argv[1])
def connect(seconds=30, **kwargs):
    return TCPStore("127.0.0.1", PORT, is_master=False, timeout=timedelta(seconds=seconds), **kwargs)
def expect(got, wanted):
    assert got == wanted, f"{got!r} instead of {wanted!r}"
def raises(call, *words):
    try:
        call()
    except Exception as error:
        assert any(word in str(error) for word in words), str(error)
    else:
        raise AssertionError("no exception")
def together(count, body):
    failures = []
    def run(i):
        try:
            body(i)
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures, failures
"""


@pytest.fixture
def store(start_muster):
    """A server of its own for each test; its port, and its log when it has ended."""
    process = start_muster(["store", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = process.stdout.readline()
    assert port.strip().isdigit(), process.stderr.read()

    class Store:
        def __init__(self):
            self.port = int(port)

        def log(self):
            process.send_signal(signal.SIGTERM)
            _, text = process.communicate(timeout=10)
            return text

    return Store()


def run(python, store, body, timeout=120):
    done = subprocess.run(
        [python, "-c", PRELUDE + body, str(store.port)],
        env=clean_env(python),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr


def test_keys_and_values(torch_python, store):
    run(
        torch_python,
        store,
        """
s = connect(world_size=1)
s.set("k", "v"); expect(s.get("k"), b"v")
s.set("k", ""); expect(s.get("k"), b"")
expect(s.add("n", 5), 5); expect(s.add("n", -7), -2); expect(s.get("n"), b"-2")
expect(s.num_keys(), 3)  # init/ is one
expect(s.delete_key("k"), True); expect(s.delete_key("k"), False)
expect(s.num_keys(), 2)
p = PrefixStore("a", PrefixStore("b", s))
p.set("k", "nested"); expect(s.get("b/a/k"), b"nested")
odd = "\\u00e4 key with / and \\n " + "x" * 8000
s.set(odd, "odd"); expect(s.get(odd), b"odd")
""",
    )


def test_compare_set(torch_python, store):
    run(
        torch_python,
        store,
        """
s = connect()
expect(s.compare_set("c", "x", "y"), b"x")
expect(s.compare_set("c", "", "d1"), b"d1")
expect(s.compare_set("c", "d0", "d2"), b"d1")
expect(s.compare_set("c", "d1", "d2"), b"d2")
expect(s.get("c"), b"d2")
""",
    )


def test_compare_set_wakes_who_waits(torch_python, store):
    run(
        torch_python,
        store,
        """
a, b = connect(), connect()
def setter(): expect(b.compare_set("late", "", "v"), b"v")
timer = threading.Timer(0.2, setter); timer.start()
expect(a.get("late"), b"v"); timer.join()
""",
    )


def test_a_value_of_the_largest_size(torch_python, store):
    run(
        torch_python,
        store,
        """
s = connect()
s.set("big", "x" * 8388608)
got = s.get("big"); assert got == b"x" * 8388608, len(got)
s.set("small", "s"); expect(s.get("small"), b"s")
""",
    )


def test_a_value_beyond_the_limit_is_refused_and_said(torch_new, store):
    run(
        torch_new,
        store,
        """
s, other = connect(), connect()
def too_large():
    s.set("big", "x" * 8388609)
    s.get("big")
raises(too_large, "Broken pipe", "Connection reset", "Connection was likely closed")
other.set("k", "v"); expect(other.get("k"), b"v")
""",
    )
    assert re.search(r"warning: store: closed 127\.0\.0\.1:\d+: value of 8388609 bytes, the limit is 8388608", store.log())


def test_timeouts_leave_a_new_client_usable(torch_new, store):
    run(
        torch_new,
        store,
        """
s, other = connect(), connect()
for i in range(3):
    raises(lambda: s.wait(["a", "b"], timedelta(milliseconds=50)), "wait timeout")
    other.set("a", "late")
    expect(s.check(["a"]), True); expect(s.check(["b"]), False)
    expect(s.add("n", 1), i + 1)
    other.delete_key("a")
raises(lambda: s.barrier("b", 2, timedelta(milliseconds=50)), "barrier timeout")
expect(s.add("n", 1), 4)
""",
    )


def test_an_old_client_that_timed_out_stays_in_step(torch_old, store):
    run(
        torch_old,
        store,
        """
s, other = connect(2), connect()
raises(lambda: s.wait(["a"], timedelta(seconds=1)), "Socket Timeout")
expect(s.add("n", 1), 1)
other.set("a", "late"); expect(other.get("a"), b"late")
expect(s.add("n", 1), 2); expect(s.get("a"), b"late"); expect(s.num_keys(), 2)
""",
    )


def test_many_keys_at_once(torch_new, store):
    run(
        torch_new,
        store,
        """
s = connect()
s.append("log", "x"); s.append("log", "yz"); expect(s.get("log"), b"xyz")
keys = [f"m{i}" for i in range(2000)]
s.multi_set(keys, [str(i) for i in range(2000)])
expect(s.multi_get(list(reversed(keys))), [str(i).encode() for i in reversed(range(2000))])
expect(s.check(keys), True); s.wait(keys)
expect(sorted(s.list_keys()), sorted(keys + ["log"]))
expect(s.has_extended_api(), True)
twin = s.clone(); twin.set("twin", "t"); expect(s.get("twin"), b"t")
""",
    )


def test_queues(torch_new, store):
    run(
        torch_new,
        store,
        """
s = connect()
s.queue_push("q", "1"); s.queue_push("q", "2")
expect(s.queue_len("q"), 2); expect(s.queue_pop("q"), b"1"); expect(s.queue_pop("q", False), b"2")
raises(lambda: s.queue_pop("q", False), "queue is empty")
expect(s.queue_len("q"), 0); expect(s.num_keys(), 0)
got, lock = [], threading.Lock()
consumers, each = 8, 20
def body(i):
    mine = connect()
    if i < consumers:
        for _ in range(each):
            item = mine.queue_pop("work")
            with lock: got.append(int(item))
    else:
        for n in range(consumers * each): mine.queue_push("work", str(n))
together(consumers + 1, body)
expect(sorted(got), list(range(consumers * each)))
""",
    )


def test_barrier(torch_new, store):
    run(
        torch_new,
        store,
        """
def body(i):
    s = connect()
    for r in range(50):
        s.add(f"arrived{r}", 1)
        s.barrier(f"b{r}", 8)
        expect(s.add(f"arrived{r}", 0), 8)
together(8, body)
""",
    )


def test_64_clients_at_once(torch_python, store):
    run(
        torch_python,
        store,
        """
CLIENTS, ROUNDS = 64, 20
def body(i):
    s = connect(60, world_size=CLIENTS, wait_for_workers=False)
    for r in range(ROUNDS):
        s.set(f"{r}/{i}", str(i * r))
        neighbour = (i + 1) % CLIENTS
        expect(int(s.get(f"{r}/{neighbour}")), neighbour * r)
        s.add("sum", 1)
together(CLIENTS, body)
expect(connect().add("sum", 0), CLIENTS * ROUNDS)
""",
    )


def test_old_and_new_clients_share_a_store(torch_new, torch_old, store):
    run(torch_old, store, 's = connect(); s.set("from-old", "1"); expect(s.add("n", 1), 1)')
    run(torch_new, store, 's = connect(); expect(s.get("from-old"), b"1"); expect(s.add("n", 1), 2); s.set("from-new", "2")')
    run(torch_old, store, 's = connect(); expect(s.get("from-new"), b"2"); expect(s.delete_key("from-new"), True)')
    run(torch_new, store, 's = connect(); expect(s.check(["from-new"]), False)')


def test_a_process_group_meets_in_it(torch_python, store):
    body = """
import os, torch.distributed as dist
rank = int(sys.argv[2])
dist.init_process_group("gloo", store=connect(60), rank=rank, world_size=2, timeout=timedelta(seconds=60))
t = torch.ones(4) * (rank + 1)
dist.all_reduce(t); expect(t.tolist(), [3.0] * 4)
dist.barrier(dist.new_group([0, 1]))
dist.destroy_process_group()
"""
    env = clean_env(torch_python)
    ranks = [
        subprocess.Popen(
            [torch_python, "-c", PRELUDE + body, str(store.port), str(rank)], env=env, stderr=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    for process in ranks:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
