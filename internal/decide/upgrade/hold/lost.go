package hold

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Lost says what a plan about a control plane that is lost for good waits for while an upgrade is
// under way. The upgrade waits for that host, so the plan must not wait for the upgrade
// (docs/adr/0101). Each is empty where nothing is waited for.
type Lost struct {
	// Retire is why the lost host is not taken out yet.
	Retire string
	// Install is why no other machine takes its place yet. That machine is installed with the
	// release that the host that stays runs.
	Install string
	// Narrow is why the host that stays does not become a lone control plane yet.
	Narrow string
}

// OfLost decides it from the text of the record, which is empty for none, and from what the host
// that stays says. What is not known holds the plan.
func OfLost(record state.Fact[string], stays state.Fact[annotation.Host]) Lost {
	whole := func(why string) Lost { return Lost{waits + why, waits + why, waits + why} }
	r, err := annotation.Decode[annotation.Record](record.Value)
	switch {
	case !record.Known || err != nil:
		return whole(Of(record, nil).Rewrite[len(waits):])
	case !stays.Known && r.Started:
		return whole("nobody knows how far the host that stays is")
	}
	step := stays.Value.Journal.Step
	if !stays.Known {
		step = parachute.None
	}
	switch rest := step.AtRest(); {
	case !rest && step != parachute.Proving:
		return whole(fmt.Sprintf("the host that stays is on its way to another release (%s), and ends it by itself first", step))
	case !rest:
		// It serves, and waits for words of its peer. Once that is taken out it needs none.
		return Lost{Install: waits + "the host that stays has not accepted its release yet", Narrow: waits + "the host that stays has not accepted its release yet"}
	case !r.Started:
		return Lost{}
	}
	return Lost{Install: install(r, stays.Value), Narrow: narrow(r)}
}

// The ways out of an upgrade that the host that stays can go alone.
const alone = "`holdfast upgrade rollback` or `holdfast upgrade commit`; the host that stays does it alone, and the API is away for a minute or two"

// install says why no machine is installed with the release that the host that stays runs.
func install(r annotation.Record, stays annotation.Host) string {
	switch release := stays.Facts.Release; {
	case !release.Known:
		return waits + "nobody knows which release the host that stays runs"
	case r.Returning && release.Value != r.From:
		return waits + "the host that stays goes back first, and the new one is installed with that release"
	case release.Value == r.From:
		return "" // it has the level of the site
	case !stays.Raised.Known:
		return waits + "nobody knows as which minor release of Kubernetes the host that stays behaves"
	case !stays.Raised.Value && r.NoWayBack:
		return waits + "the host that stays rises to the level of its release first"
	case !stays.Raised.Value:
		return waits + "until the commit the host that stays behaves as the former minor release of Kubernetes, and a new host would not: " + alone
	}
	return ""
}

// narrow says why the host that stays keeps what each release has of its own.
func narrow(r annotation.Record) string {
	if r.NoWayBack {
		return waits + "it is being committed"
	}
	return waits + "what is changed for a lone control plane would be taken back with the release: " + alone
}
