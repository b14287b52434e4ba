"""What the workers of programs/ have said."""

import re
from dataclasses import dataclass

LINE = re.compile(
    r"\bworker (?P<rank>\d+) (?P<world>\d+) (?P<local_rank>\S+) (?P<local_world>\S+) (?P<node_rank>\S+) (?P<host>\S+) (?P<master>\S+)(?P<args>.*)"
)


@dataclass
class Worker:
    rank: int
    world: int
    local_rank: int
    local_world: int
    node_rank: int
    host: str
    master: str
    args: list


def said(text):
    """Of each worker, by rank."""
    found = []
    for match in LINE.finditer(text):
        fields = match.groupdict()
        args, host, master = fields.pop("args").split(), fields.pop("host"), fields.pop("master")
        numbers = {name: int(value) if value.isdigit() else -1 for name, value in fields.items()}
        found.append(Worker(**numbers, host=host, master=master, args=args))
    return sorted(found, key=lambda worker: worker.rank)


def assert_job(text, hosts, per_node, in_order=True):
    """They were one job with `per_node` workers on each of `hosts` (a number, or one for each). `in_order`: of the ranks,
    else that of the nodes' arrival."""
    counts = per_node if isinstance(per_node, list) else [per_node] * len(hosts)
    workers = said(text)
    world = sum(counts)
    assert [w.rank for w in workers] == list(range(world)), text
    assert {w.world for w in workers} == {world}, text
    order = list(dict.fromkeys(w.host for w in workers))
    assert order == hosts if in_order else sorted(order) == hosts, text
    counts = dict(zip(hosts, counts))
    assert [w.host for w in workers] == [host for host in order for _ in range(counts[host])], text
    assert [w.local_rank for w in workers] == [i for host in order for i in range(counts[host])], text
    assert len({w.master for w in workers}) == 1, text
    return workers
