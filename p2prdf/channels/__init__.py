"""Semantic channels (SENS): named queries over a knowledge base with inference, and early notifications.

``channels`` is what is used; its docstring has the duties of a driver.  Below it: ``channel`` goes through the phases
of a publication, ``knowledge`` holds facts and what follows, ``query`` and ``evaluator`` evaluate, ``heuristic``
is what all that foresees has in common, ``learner`` does it with ``elements``, ``category`` and ``mapping``,
``seeding`` from what came to hold, ``competition`` asks the best; ``account`` decides whether that pays and which runs
are left out.
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
