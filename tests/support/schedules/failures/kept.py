"""Schedules that failed once, each by a rule that was broken or missing (docs/reliability.md has all of them).

All of them run with each change of the code; and without a rule, for schedules that failed once test more than
random ones.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KEPT"]

KEPT: Final[dict[int, str]] = {
    # A network had been cut in two, and a home in one half of it spoke for the other.
    14222: "nothing is said to have come while others may be cut off",
    # One half of the network was home to a group and knew of its first subscription alone.
    41135: "answers recorded where a subscription was not known reach it all the same",
    # A home of one's own view held answers until its group was known, and then belonged to others.
    700663: "answers that waited where they are not kept are offered soon",
    # An empty peer took itself for in sync, and delivered answers acknowledged long ago.
    701470: "who compared with others about other keys compares anew when the one who knew is lost",
    # One half of the network had made it, and both of it were lost, the disk of one of them for good.
    701472: "a subscription is not gone while those who alone may know it are missing",
    # The first question of a peer that was started again had the number of another one.
    710365: "what a former life was answered is not taken for an answer to this one",
    # A removal moved to another stay, for an earlier one had come, just when it was wanted.
    720445: "what changes while others are given it is offered again",
    # An acknowledgement reached one part of a cut network, and the answer came again from the other part.
    720510: "nothing is settled while a keeper that came meanwhile was not told",
    # A peer that did not see the peer joining with it saw its only other subscription end.
    721533: "a group joined in another part of the network goes on",
    # Told to the peer where the subscriber had been, it came when that was back, and had settled it.
    721616: "what was on its way since before an attachment is left out",
    # It came to the peer that the subscriber had come back to, long settled at another.
    721835: "what is told in an epoch that is over is not sent again",
    # One of its two keepers was gone before it had it, and the other was sent it twice.
    752729: "a query whose keeper is gone goes to who keeps it now",
    # Half of the network had not heard of a removal, for it had gone under another role, and took its stay for another.
    761148: "a stay that is over is so under all roles that a later one has",
    # Of each message to a peer that was lost there were forty to others, most of which had been sent it as well.
    761257: "what is on its way to a keeper is not sent there again when others are lost",
    # Its disk was lost, and every peer that knew the acknowledged answers went before it had reported them.
    813285: "who began with nothing and was told nothing waits for those who know",
    # One of its keepers, and not the first, heard that answers were taken back of a query that had ended unheard by it.
    801838: "a withdrawal of a query that nobody knows any more is not refused for ever",
    # The checker was wrong: the subscriber got a triple's next interval, and ended before it stored the former's end.
    822433: "who left meanwhile may hold an answer whose withdrawal was on its way",
    # A coordinator that did not know of the acknowledgement sent the answer; it came once that was settled.
    833998: "a withdrawal that is late is sure where the answer was settled",
    # It was back, without its disk, before anybody noticed that it had been gone.
    834535: "what a peer was offered is offered again to its next life",
    # Its home was busy for long, then dealt with all attempts at once, the last of them given up by another peer.
    1307546: "who attached is not told so when another has it since",
    # The peer that completed another's publication sent a part of it, and lost its disk.
    1600531: "what is rolled forward is finished by others too",
    # A removal was known to two, one of which lost its disk and the other all that was not synced.
    1603108: "what follows from a removal does not outlive it",
    # Its disk was lost, and the other keeper was gone before anything had been asked of it.
    1808376: "who began with nothing waits for those whom it never asked",
    # Two new replicas both began empty, and heard of the subscription before its acknowledgements.
    1808756: "a subscription is not told before all is here that its former homes give",
    # The checker was wrong: the rest of a publication was a removal that another peer had given the same stamp.
    2107994: "what a removal of the same moment says is nothing that is left of a publication",
    # Five copies, nine peers, a power cut and many cuts: messages were re-routed some twenty times.
    5000970: "what is sent waits once for each publication that it is a part of",
}
"""The promise that each seed tests."""
