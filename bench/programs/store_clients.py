"""Clients of a store, PyTorch's own, one process each; told on stdin what to do, answers on stdout.

    store_clients.py CLIENTS PORT:PID …      the servers, and the process whose CPU time counts for each

A line `SERVER OP CLIENTS SECONDS` (server by its place in the list) makes that many clients do the operation for so
long, all at once. The answer is one line of JSON: operations, wall time, server CPU time, latencies' 99th percentile.
"""

import glob
import json
import os
import pickle
import struct
import sys
import time
from datetime import timedelta

import torch.distributed as dist

VALUE = "x" * 100
BARRIER_CALLS_PER_SECOND = 8000  # barriers are counted, not timed: all clients must do the same number


def cpu_seconds(pid):
    """CPU time of all threads, in nanosecond resolution."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path) as f:
                total += int(f.read().split()[0])
        except OSError:
            pass  # a thread that has ended
    return total / 1e9


class Client:
    def __init__(self, number, ports):
        self.number = number
        self.stores = [dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=60)) for port in ports]
        self.mine = f"key/{number}"
        for store in self.stores:
            store.set(self.mine, VALUE)
            store.set("shared", VALUE)

    def run(self, server, op, clients, seconds, tag):
        store = self.stores[server]
        keys = [self.mine]
        calls = {
            "get": lambda: store.get(self.mine),
            "set": lambda: store.set(self.mine, VALUE),
            "add": lambda: store.add("counter", 1),
            "wait": lambda: store.wait(keys),
        }
        clock = time.perf_counter_ns
        took = []
        start = clock()
        if op == "barrier":
            for i in range(max(20, int(BARRIER_CALLS_PER_SECOND * seconds / clients))):
                begin = clock()
                store.barrier(f"barrier/{tag}/{i}", clients)
                took.append(clock() - begin)
        else:
            call = calls[op]
            end = begin = clock()
            stop = begin + int(seconds * 1e9)
            while end < stop:
                call()
                end, begin = clock(), end
                took.append(end - begin)
            if op == "set":
                store.check(keys)  # the last of them has been executed, not only sent
        return start, clock(), took


def child(number, ports, commands, results):
    client = Client(number, ports)
    os.write(results, b"r")
    while True:
        data = os.read(commands, 4096)
        if not data:
            os._exit(0)
        server, op, clients, seconds, tag = pickle.loads(data)
        body = pickle.dumps(client.run(server, op, clients, seconds, tag))
        view = memoryview(struct.pack("<Q", len(body)) + body)
        while view:
            view = view[os.write(results, view) :]


def read_exactly(fd, size):
    data = b""
    while len(data) < size:
        more = os.read(fd, size - len(data))
        if not more:
            sys.exit("a client process has died")
        data += more
    return data


def main():
    count = int(sys.argv[1])
    servers = [tuple(map(int, word.split(":"))) for word in sys.argv[2:]]
    children = []
    for number in range(count):
        commands, results = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(commands[1])
            os.close(results[0])
            for command, result in children:
                os.close(command)
                os.close(result)
            child(number, [port for port, _ in servers], commands[0], results[1])
        os.close(commands[0])
        os.close(results[1])
        children.append((commands[1], results[0]))
    for _, results in children:
        read_exactly(results, 1)
    print("ready", flush=True)
    for tag, line in enumerate(sys.stdin):
        server, op, clients, seconds = line.split()
        server, clients = int(server), int(clients)
        pid = servers[server][1]
        cpu = cpu_seconds(pid)
        for commands, _ in children[:clients]:
            os.write(commands, pickle.dumps((server, op, clients, float(seconds), tag)))
        answers = []
        for _, results in children[:clients]:
            answers.append(pickle.loads(read_exactly(results, struct.unpack("<Q", read_exactly(results, 8))[0])))
        cpu = cpu_seconds(pid) - cpu
        wall = (max(end for _, end, _ in answers) - min(start for start, _, _ in answers)) / 1e9
        took = sorted(t for _, _, times in answers for t in times)
        p99 = took[int(len(took) * 0.99)] / 1e9
        print(json.dumps({"ops": len(took), "wall": wall, "cpu": cpu, "p99": p99}), flush=True)


if __name__ == "__main__":
    main()
