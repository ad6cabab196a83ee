package hold

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// three is the number of control planes of which one can be lost without a stop.
const three = 3

// OfLostOfThree says what the replacement of one of three control planes waits for while an upgrade
// is under way. Two voters of three serve, and to take the third one out needs only them; but neither
// may be on its way in that moment, since etcd of two stops with the next one that leaves. stay has
// what the control planes that stay say, by their names. What is not known holds the plan.
func OfLostOfThree(record state.Fact[string], stay map[string]state.Fact[annotation.Host]) Lost {
	whole := func(why string) Lost { return Lost{Retire: waits + why, Install: waits + why} }
	r, err := annotation.Decode[annotation.Record](record.Value)
	switch {
	case !record.Known || err != nil:
		return whole(Of(record, nil).Rewrite[len(waits):])
	case r.Started && r.Planes == 0:
		return whole("its record counts no control planes, as an operator of an earlier release leaves it, and that one would go on with two of three: bring the host back")
	case r.Started && r.Planes != three:
		return whole(fmt.Sprintf("its record counts %d control planes, since it began while one of three had no node, and by that count it would go on with two of three: take it back first, `holdfast upgrade rollback`", r.Planes))
	case r.Started && len(stay) == 0:
		return whole("nobody knows how far the control planes that stay are")
	}
	var out Lost
	for _, name := range slices.Sorted(maps.Keys(stay)) {
		if why := busy(r, name, stay[name]); why != "" {
			return whole(why)
		}
		if why := beside(r, name, stay[name].Value); why != "" && out.Install == "" {
			out.Install = waits + why
		}
	}
	return out
}

// busy says why a control plane that stays is not at rest, or may not be.
func busy(r annotation.Record, name string, said state.Fact[annotation.Host]) string {
	step := said.Value.Journal.Step
	switch {
	case !said.Known && r.Started:
		return "nobody knows how far " + name + " is"
	case said.Known && !step.AtRest():
		return fmt.Sprintf("%s is on its way to another release (%s), and ends it by itself first", name, step)
	case r.Started && slices.Contains(r.Turns, name):
		return name + " has its turn, which is taken back first"
	}
	return ""
}

// ofThree are the ways out of an upgrade that two control planes of three can go.
const ofThree = "`holdfast upgrade rollback`: each host that goes back stops etcd of two, and the API is away for some minutes each time; or, if both run the new release, `holdfast upgrade commit`, which stops no etcd"

// beside says why no machine is installed with the release that a control plane runs. Each of those
// that stay may serve the installation: it is the one with the virtual IP.
func beside(r annotation.Record, name string, says annotation.Host) string {
	switch release := says.Facts.Release; {
	case !r.Started:
		return ""
	case !release.Known:
		return "nobody knows which release " + name + " runs"
	case release.Value == r.From:
		return "" // it has the level of the site
	case !says.Raised.Known:
		return "nobody knows as which minor release of Kubernetes " + name + " behaves"
	case !says.Raised.Value && r.NoWayBack:
		return name + " rises to the level of its release first"
	case !says.Raised.Value:
		return "until the commit " + name + " behaves as the former minor release of Kubernetes, and a new host would not: " + ofThree
	}
	return ""
}
