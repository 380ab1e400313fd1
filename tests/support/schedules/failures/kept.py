"""Seeds of fault schedules that failed once, each because of a broken or missing rule (docs/reliability.md).

The tests run all of them, and mutants run on them first: a schedule that failed once tests more than a random one.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KEPT"]

KEPT: Final[dict[int, str]] = {
    # In a partition, a coordinator in one half acted for the other half.
    14222: "nothing is said to have come while others may be cut off",
    # One half of the network had the coordinator of a group, which knew only its first subscription.
    41135: "answers recorded where a subscription was not known reach it all the same",
    # A coordinator by its own view held answers until it knew their group; by then other peers were coordinators.
    700663: "answers that waited where they are not kept are offered soon",
    # An empty peer regarded itself as in sync, and delivered answers that had been acknowledged long before.
    701470: "who compared with others about other keys compares anew when the one who knew is lost",
    # A subscription existed in one half of the network only; both of its peers failed, one with its disk for good.
    701472: "a subscription is not gone while those who alone may know it are missing",
    # The first request of a restarted peer had the number of an earlier request.
    710365: "what a former life was answered is not taken for an answer to this one",
    # A deletion moved to another validity interval, as an earlier one arrived, while a replica requested it.
    720445: "what changes while others are given it is offered again",
    # An acknowledgement reached one half of a partition, and took effect after the other half was back.
    720510: "nothing is settled while a keeper that came meanwhile was not told",
    # A peer that did not see a joined peer saw the end of its only other subscription.
    721533: "a group joined in another part of the network goes on",
    # An answer was in flight to the subscriber's former peer, and arrived after the subscriber's return and settlement.
    721616: "what was on its way since before an attachment is left out",
    # An answer, settled at another peer long before, came to the peer to which the subscriber had returned.
    721835: "what is told in an epoch that is over is not sent again",
    # One of a query's two replicas failed before it received the query, and the other received it twice.
    752729: "a query whose keeper is gone goes to who keeps it now",
    # Half of the network missed a deletion that went to another index, and assigned another validity interval.
    761148: "a stay that is over is so under all roles that a later one has",
    # For each message to a lost peer there were forty to other peers, most of which had received it already.
    761257: "what is on its way to a keeper is not sent there again when others are lost",
    # A peer lost its disk, and the peers that knew the acknowledgements failed before they could report them.
    813285: "who began with nothing and was told nothing waits for those who know",
    # A replica, not the primary, got retractions for a query of which it had missed the end.
    801838: "a withdrawal of a query that nobody knows any more is not refused for ever",
    # The checker was wrong: the subscriber got a triple's next validity interval, and left before the end of the last.
    822433: "who left meanwhile may hold an answer whose withdrawal was on its way",
    # A retraction came from a coordinator that did not know the acknowledgement yet, after the answer was settled.
    833998: "a withdrawal that is late is sure where the answer was settled",
    # A peer was back, without its disk, before any other peer detected its failure.
    834535: "what a peer was offered is offered again to its next life",
    # A busy coordinator processed several attach requests at once, the last of them already abandoned.
    1307546: "who attached is not told so when another has it since",
    # A peer that completed another peer's publication sent a part of it, and lost its disk.
    1600531: "what is rolled forward is finished by others too",
    # Two peers had a deletion; one lost its disk, and the other its unsynced records.
    1603108: "what follows from a removal does not outlive it",
    # A peer lost its disk, and the other replica failed before it was asked.
    1808376: "who began with nothing waits for those whom it never asked",
    # Both replicas by a new view were empty, and got the subscription before its acknowledgements.
    1808756: "a subscription is not told before all is here that its former homes give",
    # The checker was wrong: the rest of a publication was a deletion, to which another peer had given the same stamp.
    2107994: "what a removal of the same moment says is nothing that is left of a publication",
    # Five copies, nine peers, a power cut and many partitions: messages were re-routed some twenty times.
    5000970: "what is sent waits once for each publication that it is a part of",
}
"""The violated rule of each seed."""
