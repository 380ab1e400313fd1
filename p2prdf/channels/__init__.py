"""Semantic channels (SENS): named queries over inferred facts, with early notifications.

``channels`` is the public interface; its docstring lists the duties of a driver. Below it, ``channel`` runs the
phases of a publication, ``knowledge`` holds base and derived facts, and ``query`` and ``evaluator`` evaluate.
``heuristic`` is the interface of all predictors: ``learner`` predicts with ``elements``, ``category`` and
``mapping``, ``seeding`` from new facts; ``competition`` selects the best. ``account`` decides whether
prediction pays and which runs of a query to skip.
"""

from p2prdf.channels.category import Categories
from p2prdf.channels.channel import ChannelStatistics, Timer
from p2prdf.channels.channels import Channels
from p2prdf.channels.evaluation import Evaluation
from p2prdf.channels.knowledge import KnowledgeBase
from p2prdf.channels.notification import Kind, Notification
from p2prdf.channels.settings import BEYOND_PAPER, PAPER, Settings

__all__ = [
    "BEYOND_PAPER", "PAPER", "Categories", "ChannelStatistics", "Channels", "Evaluation", "Kind", "KnowledgeBase",
    "Notification", "Settings", "Timer",
]  # fmt: skip
