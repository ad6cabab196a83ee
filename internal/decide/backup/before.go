package backup

import (
	"fmt"
	"time"

	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// BeforeAge is the greatest age of the newest good backup with which a person begins a step that
// cannot be taken back. An upgrade has one taken by itself, and allows a greater age.
const BeforeAge = 4 * time.Hour

// BeforeWay is what to do if Before refuses for a whole site. Each command for such a step has the flag.
const BeforeWay = "holdfast backup now, or --without-backup"

// BeforeHere words why the carrier of a plan, which looks at its own backups alone, has to wait for
// one, and says what to do. A backup of another host does not open its gate.
func BeforeHere(carrier, why string) (words, way string) {
	return fmt.Sprintf("on %s, which carries the plan, %s", carrier, why), fmt.Sprintf("holdfast backup now --host %s, or --without-backup", carrier)
}

// Before returns why a step that cannot be taken back has to wait for a backup; empty if it need
// not. newest is the time of the newest good backup of the site, zero for none. One that is
// ahead of the clock counts for nothing.
func Before(newest state.Fact[time.Time], now time.Time) string {
	switch {
	case !newest.Known:
		return "it is unknown whether there is a good backup"
	case newest.Value.IsZero(), model.Ahead(newest.Value, now):
		return "there is no good backup"
	case now.Sub(newest.Value) > BeforeAge:
		return fmt.Sprintf("the newest good backup is older than %.0f hours", BeforeAge.Hours())
	}
	return ""
}

// NewestOf returns the time of the newest good backup of which control planes tell, as Before
// takes it. It is unknown if none of them tells of its backups.
func NewestOf(nodes []state.Node, now time.Time) state.Fact[time.Time] {
	s := Site{Now: now}
	for _, n := range nodes {
		if _, control := n.Labels[state.LabelControlPlane]; control {
			s.Hosts = append(s.Hosts, HostOf(n.Name, n.Annotations))
		}
	}
	_, newest, _ := s.Newest()
	return state.Fact[time.Time]{Known: s.Known(), Value: newest.Taken}
}
