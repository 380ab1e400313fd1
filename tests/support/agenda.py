"""A check of the agenda: no component has an earlier deadline than the one that its peer reckons with."""

from __future__ import annotations

from p2prdf.peer import Peer
from p2prdf.wire.contract import Effect

__all__ = ["check_all_peers"]


def check_all_peers() -> None:
    """Check each peer of this process after each call; peers of other processes are not checked.

    A component that forgets to mark itself as dirty would be woken too late, perhaps never: this is the guard against
    that fault.
    """
    end = Peer._end

    def checked(peer: Peer) -> list[Effect]:
        for each in peer._timed:
            if not each.dirty and not peer.turn_open:
                deadline = each.deadline
                assert deadline is None or (each.due is not None and each.due <= deadline), (
                    f"{type(each).__name__} is due at {deadline} and would be woken at {each.due}:"
                    " it has to mark itself as dirty"
                )
        return end(peer)

    if not getattr(Peer, "agenda_checked", False):
        Peer._end = checked  # type: ignore[method-assign]
        Peer.agenda_checked = True  # type: ignore[attr-defined]
