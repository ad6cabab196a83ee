package twonode

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func corosyncOf(text []byte) (Corosync, error) {
	conf, err := corosync.Parse(text)
	return CorosyncOf(conf), err
}

// there returns a whole configuration as it is on hosts, with corosync.conf.
func there(t *testing.T, name string) Config {
	t.Helper()
	c := cibOf(t, name)
	text, err := os.ReadFile("testdata/corosync.conf")
	if err != nil {
		t.Fatal(err)
	}
	if c.Corosync, err = corosyncOf(text); err != nil {
		t.Fatal(err)
	}
	return c
}

func told(ds []Difference) string {
	var out strings.Builder
	for _, d := range ds {
		mark := "told:     "
		if d.Ours {
			mark = "set back: "
		}
		out.WriteString(mark + d.Words + "\n")
	}
	return out.String()
}

func TestWhatWasSetUpHasNotDrifted(t *testing.T) {
	if ds := Drift(there(t, "ours.xml"), Wanted(site())); len(ds) > 0 {
		t.Error(told(ds))
	}
}

func TestTheDriftOfARecordedCIBIsTheApprovedOne(t *testing.T) {
	golden.Check(t, "drift.txt", []byte(told(Drift(there(t, "drifted.xml"), Wanted(site())))))
}

// every returns all lists of settings of a configuration.
func every(c *Config) []*[]Setting {
	out := []*[]Setting{&c.Corosync.Totem, &c.Corosync.Link, &c.Properties}
	for i := range c.Resources {
		r := &c.Resources[i]
		out = append(out, &r.Parameters, &r.Meta)
		r.Operations = slices.Clone(r.Operations)
		for j := range r.Operations {
			out = append(out, &r.Operations[j].Settings)
		}
		if r.Clone != nil {
			r.Clone = &Clone{r.Clone.ID, r.Clone.Meta}
			out = append(out, &r.Clone.Meta)
		}
	}
	c.Constraints = slices.Clone(c.Constraints)
	for i := range c.Constraints {
		out = append(out, &c.Constraints[i].Settings)
	}
	return out
}

func TestEachSettingOfTheTableIsSeenToChangeAndIsSetBack(t *testing.T) {
	want := Wanted(site())
	changed := 0
	for list := range every(&want) {
		for i := range *every(&want)[list] {
			have := Wanted(site())
			settings := every(&have)[list]
			*settings = slices.Clone(*settings)
			name := (*settings)[i].Name
			(*settings)[i].Value = "7331"
			if name == "node_ip_map" {
				continue // the names and addresses of the two hosts are no setting
			}
			changed++
			ds := Drift(have, want)
			if len(ds) != 1 {
				t.Errorf("%s: %d differences: %s", name, len(ds), told(ds))
				continue
			}
			cmds, err := Steps(have, want.Of(have))
			totem, err2 := CorosyncSteps(have.Corosync, want.Corosync)
			if ds[0].Ours != (len(cmds)+len(totem) > 0) || err != nil || err2 != nil {
				t.Errorf("%s: ours %v, %d commands of pcs, %v, %v", told(ds), ds[0].Ours, len(cmds)+len(totem), err, err2)
			}
			if link := list == 1; ds[0].Ours == link {
				t.Errorf("%s is %q", name, told(ds))
			}
		}
	}
	if changed < 75 {
		t.Errorf("%d settings were changed, of a table of more", changed)
	}
}

func TestWhatIsTakenAwayIsSeen(t *testing.T) {
	want := Wanted(site())
	for i, r := range want.Resources {
		have := Wanted(site())
		have.Resources = slices.Delete(have.Resources, i, i+1)
		if ds := Drift(have, want); len(ds) != 1 || !ds[0].Ours || !strings.Contains(ds[0].Words, r.ID) {
			t.Errorf("without %s: %s", r.ID, told(ds))
		}
	}
	for i, c := range want.Constraints {
		have := Wanted(site())
		have.Constraints = slices.Delete(have.Constraints, i, i+1)
		if ds := Drift(have, want); len(ds) != 1 || !ds[0].Ours || !strings.Contains(ds[0].Words, c.ID) {
			t.Errorf("without %s: %s", c.ID, told(ds))
		}
	}
}

func TestAPersonsWorkOnTheClusterIsNoDrift(t *testing.T) {
	have := there(t, "ours.xml")
	have.Properties = append(have.Properties, Setting{Name: "maintenance-mode", Value: "true"}, Setting{Name: "cluster-delay", Value: "70s"})
	for i := range have.Resources {
		have.Resources[i].Meta = append(have.Resources[i].Meta, Setting{Name: "target-role", Value: "Stopped"}, Setting{Name: "is-managed", Value: "false"})
	}
	have.Resources = append(have.Resources, Resource{ID: "theirs", Agent: "ocf:heartbeat:Dummy"})
	have.Constraints = append(have.Constraints,
		Constraint{ID: "a", Kind: Location, Settings: []Setting{{Name: "rsc", Value: "theirs"}, {Name: "node", Value: "cp-1"}, {Name: "score", Value: "-INFINITY"}}},
		Constraint{ID: "b", Kind: Location, Settings: []Setting{{Name: "rsc", Value: EtcdClone}, {Name: "node", Value: "cp-1"}, {Name: "score", Value: "100"}}})
	if ds := Drift(have, Wanted(site())); len(ds) > 0 {
		t.Error(told(ds))
	}
}

func TestWhatAPersonAddedThatEndangersIsToldAndLeft(t *testing.T) {
	have := there(t, "ours.xml")
	have.Properties = append(have.Properties, Setting{Name: "symmetric-cluster", Value: "false"}, Setting{Name: "priority-fencing-delay", Value: "0"})
	have.ResourceDefaults = []Setting{{Name: "is-managed", Value: "false"}, {Name: "resource-stickiness", Value: "1"}}
	have.Resources[0].Parameters = append(have.Resources[0].Parameters, Setting{Name: "pcmk_delay_max", Value: "10s"})
	have.Constraints = append(have.Constraints,
		Constraint{ID: "cli-ban-etcd-clone-on-cp-2", Kind: Location, Settings: []Setting{{Name: "rsc", Value: EtcdClone}, {Name: "node", Value: "cp-2"}, {Name: "score", Value: "-INFINITY"}}},
		Constraint{ID: "theirs", Kind: Order, Settings: []Setting{{Name: "first", Value: "db"}, {Name: "then", Value: EtcdClone}}})
	ds := Drift(have, Wanted(site()))
	text := told(ds)
	for _, part := range []string{"symmetric-cluster is false", "is-managed=false", "pcmk_delay_max is 10s", "keeps etcd-clone from cp-2", "stops etcd-clone when db stops"} {
		if !strings.Contains(text, "told:") || !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if len(ds) != 5 || strings.Contains(text, "set back") {
		t.Error(text)
	}
}

func TestWhoTheTwoHostsAreIsNeverSetBack(t *testing.T) {
	have := there(t, "ours.xml")
	want := Wanted(Input{Nodes: []Node{{"cp-1", "10.0.0.1"}, {"cp-2", "10.0.0.2"}}})
	if cmds, err := Steps(have, want.Of(have)); err != nil || len(cmds) > 0 {
		t.Errorf("%v\n%s", err, show(cmds))
	}
}

// A person ends a loop of fences with it (docs/runbook/alerts.md, HoldfastFencedAgainAndAgain).
func TestAFencedHostThatIsToStayOffIsToldAndLeft(t *testing.T) {
	have := there(t, "ours.xml")
	have.Properties = slices.Clone(have.Properties)
	for i, p := range have.Properties {
		switch p.Name {
		case "stonith-action":
			have.Properties[i].Value = "off"
		case "cluster-recheck-interval":
			have.Properties[i].Value = "15min"
		}
	}
	want := Wanted(site())
	ds := Drift(have, want)
	text := told(ds)
	if len(ds) != 2 || !strings.Contains(text, "told:     stonith-action is off") || !strings.Contains(text, "pcs property set stonith-action=reboot") {
		t.Errorf("another setting is set back, this one is told:\n%s", text)
	}
	cmds, err := Steps(have, want.Of(have))
	if err != nil || len(cmds) != 1 || !slices.Equal(cmds[0].Args, []string{"property", "set", "cluster-recheck-interval=60s"}) {
		t.Errorf("what is set back beside it: %v\n%s", err, show(cmds))
	}
	cmds, err = Steps(have, want)
	if err != nil || len(cmds) != 1 || !slices.Contains(cmds[0].Args, "stonith-action=reboot") {
		t.Errorf("a set-up puts it back: %v\n%s", err, show(cmds))
	}
}
