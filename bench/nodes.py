"""Jobs on several nodes: start, faults, many agents, output."""

from __future__ import annotations

import node_cable
import node_faults
import node_load
import node_output
from lib import Contest


def contests() -> list[Contest]:
    return [contest for part in (node_faults, node_cable, node_load, node_output) for contest in part.contests()]
