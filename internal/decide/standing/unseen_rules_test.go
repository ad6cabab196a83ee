package standing

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/explain"
)

// forget makes one fact unknown, by the name of its field. It keeps its value where keep
// is set, as a source may that failed after it had answered.
func forget(of reflect.Value, i int, keep bool) bool {
	f := of.Field(i)
	if f.Kind() != reflect.Struct || !f.FieldByName("Known").IsValid() || !f.FieldByName("From").IsValid() || !f.FieldByName("Known").Bool() {
		return false
	}
	f.FieldByName("Known").SetBool(false)
	f.FieldByName("From").SetString("")
	f.FieldByName("At").SetZero()
	if !keep {
		f.FieldByName("Value").SetZero()
	}
	return true
}

// eachLoss calls a function with each situation less one fact of the site or of a host.
func eachLoss(t *testing.T, f func(what string, whole, less, kept Facts)) {
	whole := situations(t)
	for name, s := range whole {
		places := []func(*Facts) reflect.Value{func(f *Facts) reflect.Value { return reflect.ValueOf(f).Elem() }}
		for i := range s.Hosts {
			places = append(places, func(f *Facts) reflect.Value { return reflect.ValueOf(&f.Hosts[i]).Elem() })
		}
		for _, place := range places {
			for i := range place(&s).NumField() {
				less, kept := copied(s), copied(s)
				if !forget(place(&less), i, false) {
					continue
				}
				forget(place(&kept), i, true)
				f(name+" without "+place(&s).Type().Field(i).Name, s, less, kept)
			}
		}
	}
}

func copied(f Facts) Facts {
	f.Hosts, f.VIPs, f.Sources = slices.Clone(f.Hosts), slices.Clone(f.VIPs), slices.Clone(f.Sources)
	return f
}

// TestTheValueOfAFactThatIsNotKnownIsNobodys: each fact that is lost leaves a view as if
// it never had been.
func TestTheValueOfAFactThatIsNotKnownIsNobodys(t *testing.T) {
	losses := 0
	eachLoss(t, func(what string, _, less, kept Facts) {
		losses++
		gone, stays := Describe(less), Describe(kept)
		if !reflect.DeepEqual(gone, stays) {
			t.Errorf("%s: %s", what, cmp.Diff(gone, stays))
		}
	})
	if losses < 200 {
		t.Errorf("only %d losses", losses)
	}
}

// TestNoSituationGetsBetterByAFactThatIsLost: whatever a source stops telling, nothing
// turns well, and no answer about a loss turns to yes.
func TestNoSituationGetsBetterByAFactThatIsLost(t *testing.T) {
	// Nothing but the fact itself says that these are ill.
	alone := []string{"Operators", "Loops", "Firewalls", "Trouble", "Missing", "SetUp", "Heartbeat"}
	eachLoss(t, func(what string, whole, less, _ Facts) {
		before, after := Describe(whole), Describe(less)
		if before.Redundancy.Survives != Yes && after.Redundancy.Survives == Yes {
			t.Errorf("%s: a loss is survived: %s", what, after.Redundancy.Sentence)
		}
		only := slices.ContainsFunc(alone, func(field string) bool { return strings.HasSuffix(what, " "+field) })
		if after.Status == explain.Healthy && before.Status != explain.Healthy && !only {
			t.Errorf("%s: %s becomes %s", what, before.Status, after.Status)
		}
	})
}

// TestEachCellOfAHostOfWhichNothingIsKnownIsUnknown, and none is good.
func TestEachCellOfAHostOfWhichNothingIsKnownIsUnknown(t *testing.T) {
	f := many(3, "10.98.0.5", "10.98.0.6")
	f.Hosts[1] = Host{Name: "cp-2", ControlPlane: true}
	for _, l := range Describe(f).Hosts {
		for what, c := range map[string]Cell{"power": l.Power, "kubelet": l.Kubelet, "etcd": l.Etcd, "lag": l.Lag} {
			if l.Name == "cp-2" && (c != unsaid) {
				t.Errorf("%s of %s: %+v", what, l.Name, c)
			}
		}
	}
}
