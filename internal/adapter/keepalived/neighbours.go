package keepalived

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Neighbour is a neighbour that the kernel knows, with the number of the
// interface.
type Neighbour struct {
	Index int
	Addr  netip.Addr
}

// reached are the states of a neighbour whose hardware address the kernel uses.
const reached = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT

// FollowNeighbours reports for each neighbour the hardware address at which the
// kernel reaches it, empty for none: first for all present neighbours, then for
// each that changes. It returns with the context, or when it cannot go on.
func FollowNeighbours(ctx context.Context, heard func(Neighbour, string)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	updates := make(chan netlink.NeighUpdate)
	err := netlink.NeighSubscribeWithOptions(updates, ctx.Done(), netlink.NeighSubscribeOptions{
		ListExisting: true,
		ErrorCallback: func(err error) {
			if !errors.Is(err, netlink.ErrDumpInterrupted) { // changes during the dump are reported after it
				stop(fmt.Errorf("follow neighbours: %w", err))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("follow neighbours: %w", err)
	}
	for u := range updates {
		a, ok := netip.AddrFromSlice(u.IP)
		if !ok {
			continue // an entry of a bridge
		}
		at := ""
		if u.Type == unix.RTM_NEWNEIGH && u.State&reached != 0 && len(u.HardwareAddr) > 0 {
			at = u.HardwareAddr.String()
		}
		heard(Neighbour{u.LinkIndex, a.Unmap()}, at)
	}
	return context.Cause(ctx)
}
