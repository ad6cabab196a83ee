package upgrade

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/records"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

// startPacemaker starts Pacemaker, as at a boot where that is needed: Corosync ran on while
// this host was at its work. So Pacemaker would have the quorum of before, and where the
// hosts lost sight of each other meanwhile it would have the power of its peer cut. A host
// whose data may lack acknowledged writes gains nothing by that, as it never goes on alone,
// and the peer may be the only one that serves. A Corosync that starts anew waits for the
// peer before it grants quorum (docs/adr/0079-the-host-of-an-upgrade.md, decision 9).
func (m machine) startPacemaker(ctx context.Context) error {
	out, err := m.systemd(ctx, "is-active", unit.PacemakerUnit)
	word := strings.TrimSpace(string(out))
	if word == "" {
		return fmt.Errorf("ask systemd for %s: %w", unit.PacemakerUnit, err)
	}
	if (word == "inactive" || word == "failed") && m.behind() && !m.seesPeer(ctx) {
		if err := m.systemctl(ctx, "restart", unit.CorosyncUnit); err != nil {
			return err
		}
	}
	return m.systemctl(ctx, "start", "--no-block", unit.PacemakerUnit)
}

// behind reports whether this host's data are known to be such that it never goes on alone.
func (m machine) behind() bool {
	r, err := records.Files{Root: m.root}.Record()
	return err == nil && r.State.Behind()
}

// seesPeer reports whether Corosync is known to have another host. Where that is unknown a
// new start does no harm: nothing that needs Corosync runs here.
func (m machine) seesPeer(ctx context.Context) bool {
	now := m.members(ctx)
	return now.Known && len(now.Value.Members) > 1
}
