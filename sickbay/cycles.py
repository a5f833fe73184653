"""Loops of a directed graph: Tarjan's strongly connected components (SIAM J. Comput. 1, 1972), without recursion."""

from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def loops(graph: Mapping[Node, Collection[Node]]) -> list[frozenset[Node]]:
    """Groups of two or more nodes that reach each other. Linear; nodes without a row have no successors."""
    found: list[frozenset[Node]] = []
    order: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    on_stack: set[Node] = set()
    for root in graph:
        if root in order:
            continue
        work = [(root, iter(graph[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in order:
                    order[successor] = low[successor] = len(order)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(graph.get(successor, ()))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], order[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    group = _unwind(stack, node)
                    on_stack -= group
                    if len(group) > 1:
                        found.append(group)
    return found


def _unwind(stack: list[Node], node: Node) -> frozenset[Node]:
    at = len(stack) - 1
    while stack[at] != node:
        at -= 1
    group = frozenset(stack[at:])
    del stack[at:]
    return group
