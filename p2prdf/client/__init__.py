"""Asynchronous client of a node: publish, subscribe, resume and query.

::

    async with p2prdf.connect("127.0.0.1:7400") as client:
        query = "SELECT ?athlete ?goals WHERE { ?athlete a <urn:Athlete> ; <urn:goals> ?goals }"
        subscription = await client.subscribe(query)
        await client.publish([("<urn:a>", "<urn:goals>", 3)])
        async for solution in subscription:
            print(solution["athlete"], solution.value("goals"), solution.sequence)
"""

from __future__ import annotations

from p2prdf.client.client import Client, connect
from p2prdf.client.cohort import Advance, Cohort
from p2prdf.client.derived import Derived
from p2prdf.client.export import Export, ExportPage
from p2prdf.client.pieces import Quad, TermColumns
from p2prdf.client.publishing import Effort, Progress
from p2prdf.client.query import Result
from p2prdf.client.services import ServiceBounds
from p2prdf.client.solutions import Batch, Bindings, Gap, Solution
from p2prdf.client.stream import Stream
from p2prdf.client.subscription import Subscription
from p2prdf.client.transaction import Transaction
from p2prdf.client.update import UpdateBounds, Updated

__all__ = [
    "Advance", "Batch", "Bindings", "Client", "Cohort", "Derived", "Effort", "Export", "ExportPage", "Gap", "Progress",
    "Quad", "Result", "ServiceBounds", "Solution", "Stream", "Subscription", "TermColumns", "Transaction",
    "UpdateBounds", "Updated", "connect",
]  # fmt: skip
