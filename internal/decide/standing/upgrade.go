package standing

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/internal/model/state"
)

// UpgradeObjects is what the API has of an upgrade beside the Nodes.
type UpgradeObjects struct {
	// Version is the ClusterVersion; nil if there is none.
	Version *configv1.ClusterVersion
	// Record is the text of the operator's record, empty for none.
	Record state.Fact[string]
}

// upgrade reads what is known of an upgrade; known is false if nobody told anything.
func (d describer) upgrade() (u people.Upgrade, known bool) {
	o := people.Objects{Now: d.Now, Version: d.Upgrade.Value.Version, Record: d.Upgrade.Value.Record}
	for _, h := range d.Hosts {
		if h.Release.Known {
			o.Hosts = append(o.Hosts, h.Release.Value)
		}
	}
	return people.Read(o), d.Upgrade.Known
}

// brief returns the part of the view about an upgrade; nil for none.
func (d describer) brief() *people.Brief {
	u, known := d.upgrade()
	if !known {
		return nil
	}
	return u.Brief()
}

// ofUpgrade finds what people are told of an upgrade. Package people says what that is.
func (d describer) ofUpgrade() []finding.Finding {
	u, known := d.upgrade()
	if !known {
		return nil
	}
	return Upgrades(u)
}

// Upgrades finds what people are told of an upgrade, hosts first.
func Upgrades(u people.Upgrade) []finding.Finding {
	var out []finding.Finding
	for _, t := range u.Troubles() {
		f := upgradeWords[t.Kind](t)
		f.Subject, f.Page = t.Host, pageOf(f.ID)
		out = append(out, f)
	}
	return out
}

// seeUpgrade is the command that shows all of it.
var seeUpgrade = finding.Anywhere("holdfast upgrade status")

// upgradeWords says each kind of trouble.
var upgradeWords = map[people.TroubleKind]func(t people.Trouble) finding.Finding{
	people.HostHeld: func(t people.Trouble) finding.Finding {
		return finding.Finding{
			ID: UpgradeHostHeld, Severity: finding.Warning, Variant: t.Why, Problem: fmt.Sprintf("%s holds in the middle of its upgrade: %s", t.Host, t.Why),
			Meaning: "It serves as it can, goes on looking, and goes on or back by itself once the cause is gone. No other host begins.", Commands: seeUpgrade,
		}
	},
	people.HostReturned: func(t people.Trouble) finding.Finding {
		return finding.Finding{
			ID: UpgradeHostReturned, Severity: finding.Warning, Variant: t.Why, Problem: fmt.Sprintf("%s went back to its old release by itself: %s", t.Host, t.Why),
			Meaning: "It serves with the old release. The upgrade waits for a person: go back with the whole site, and begin anew once the cause is mended.", Commands: append(finding.Anywhere("holdfast upgrade rollback"), seeUpgrade...),
		}
	},
	people.FetchFailed: func(t people.Trouble) finding.Finding {
		return finding.Finding{
			ID: UpgradeFetchFailed, Severity: finding.Warning, Variant: t.Why, Problem: fmt.Sprintf("%s cannot fetch the release of the upgrade: %s", t.Host, t.Why),
			Meaning: "It tries again by itself, and goes on where it was cut off. No host begins until all have it.", Commands: seeUpgrade,
		}
	},
	people.HeldByGate: func(t people.Trouble) finding.Finding {
		return finding.Finding{
			ID: UpgradePaused, Severity: finding.Warning, Variant: t.Why, Problem: "the upgrade waits: " + t.Why,
			Meaning: "It goes on by itself once the reason is gone.", Commands: finding.Anywhere("holdfast upgrade check"),
		}
	},
	people.PausedByPerson: func(t people.Trouble) finding.Finding {
		return finding.Finding{
			ID: UpgradePaused, Severity: finding.Note, Variant: t.Why, Problem: "a person has paused the upgrade: " + t.Why,
			Meaning: "No further host begins, and nothing is committed.", Commands: finding.Anywhere("holdfast upgrade resume"),
		}
	},
	people.WishRefused: func(t people.Trouble) finding.Finding {
		return finding.Finding{
			ID: UpgradeRefused, Severity: finding.Warning, Variant: t.Why, Problem: "the release that ClusterVersion wants is refused: " + t.Why,
			Meaning: "What is under way goes on.", Commands: seeUpgrade,
		}
	},
	people.Mixed: func(t people.Trouble) finding.Finding {
		return finding.Finding{
			ID: ReleasesMixed, Severity: finding.Warning, Variant: t.Why, Problem: "hosts run different releases: " + t.Why,
			Meaning: "Two releases are made to serve together for the time of an upgrade. End the upgrade, or bring the host to the site's release.", Commands: seeUpgrade,
		}
	},
	people.WayBackOpen: func(t people.Trouble) finding.Finding {
		return finding.Finding{
			ID: UpgradeWayBackOpen, Severity: finding.Note, Problem: "the way back from the upgrade is open: " + t.Why,
			Meaning: "All hosts run the new release. Until the commit the whole site can go back.", Commands: append(finding.Anywhere("holdfast upgrade commit"), finding.Anywhere("holdfast upgrade rollback")...),
		}
	},
}

// upgrade writes the section about an upgrade.
func (p *text) upgrade(b *people.Brief) {
	if b == nil {
		return
	}
	p.Title("Upgrade")
	p.Wrapped("  ", b.Sentence())
	for _, h := range b.Hosts {
		p.Wrapped("    ", h.Name+" "+h.Doing)
	}
	p.Wrapped("  ", "More: "+p.Paint(page.Bold, "holdfast upgrade status"))
}
