"""The policy as a value: a tuple of stages, each of which annotates and narrows. What is muted names its muter.

    fresh → confirm → inhibit → owners → held → budget → attempts → order → approval → ledger

Nothing here acts, reads a clock or asks a scheduler: `Context` holds all that was read.
"""

from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

from remediation.decision import Context, Decision
from remediation.propose import proposed
from remediation.stages.approval import approval
from remediation.stages.attempts import attempts
from remediation.stages.budget import budget
from remediation.stages.confirm import confirm
from remediation.stages.fresh import fresh
from remediation.stages.held import held
from remediation.stages.inhibit import inhibit
from remediation.stages.line import line
from remediation.stages.order import order
from remediation.stages.owners import owners

Stage: TypeAlias = Callable[[tuple[Decision, ...], Context], tuple[Decision, ...]]

STAGES: tuple[Stage, ...] = (fresh, confirm, inhibit, owners, held, budget, attempts, order, approval, line)


def decide(context: Context, stages: tuple[Stage, ...] = STAGES) -> tuple[Decision, ...]:
    """The lines of the ledger that change now. Those in state intended are to be done once they are written down."""
    return reduce(lambda decisions, stage: stage(decisions, context), stages, proposed(context))
