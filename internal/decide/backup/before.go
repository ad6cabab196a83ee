package backup

import (
	"fmt"
	"slices"
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

// BeforeOf is Before with the newest good backup of which control planes tell. What a host says stays at its
// Node after its disk has burnt: of one that is silent, or that goes by this step, those count alone
// of which a target has a copy.
func BeforeOf(nodes []state.Node, now time.Time, goes ...string) string {
	all, sure := Site{Now: now}, Site{Now: now}
	for _, n := range nodes {
		if _, control := n.Labels[state.LabelControlPlane]; !control {
			continue
		}
		h := HostOf(n.Name, n.Annotations)
		h.Lost = n.Silent || slices.Contains(goes, n.Name)
		all.Hosts = append(all.Hosts, h)
		if h.Lost {
			h.Kept = slices.DeleteFunc(slices.Clone(h.Kept), func(b Brief) bool { return !b.sent() })
		}
		sure.Hosts = append(sure.Hosts, h)
	}
	why := Before(sure.newest(), now)
	if host, _, _ := all.Newest(); why != "" && Before(all.newest(), now) == "" {
		why += fmt.Sprintf(" but for one on %s alone, which is silent or goes", host)
	}
	return why
}

// newest is Newest as Before takes it: unknown if no host tells of its backups.
func (s Site) newest() state.Fact[time.Time] {
	_, newest, _ := s.Newest()
	return state.Fact[time.Time]{Known: s.Known(), Value: newest.Taken}
}
