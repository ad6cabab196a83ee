package twonode

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAHostOfThreeEntersThePairWithoutATokenInWhatItSays: the keeper is there before Pacemaker can ask it.
func TestAHostOfThreeEntersThePairWithoutATokenInWhatItSays(t *testing.T) {
	s := newSite(t)
	for range 2 { // it can be done again
		if err := s.EnterPair(t.Context(), input()); err != nil {
			t.Fatal(err)
		}
		if !s.running || s.text(state.EtcdPodManifest) != "kind: Pod\n" || s.text(CorosyncKey) == "" {
			t.Errorf("running %t, %q", s.running, s.runs)
		}
	}
	at := func(line string) int {
		return slices.IndexFunc(s.runs, func(r string) bool { return strings.HasPrefix(r, line) })
	}
	if keeper, ring := at("systemctl enable --now --quiet podman-etcd.service"), at("systemctl start corosync.service"); keeper < 0 || ring < keeper {
		t.Errorf("%q", s.runs)
	}
	if strings.Contains(s.out.String(), token) {
		t.Error("the token is in the log")
	}
	in := input()
	in.Token, in.Manifest = "", ""
	if err := newSite(t).EnterPair(t.Context(), in); err == nil || !strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "manifest") {
		t.Error(err)
	}
}

// TestAHostIsInThePairOnceAllOfItRunsAndStartsAtBoot: what is not known to run does not.
func TestAHostIsInThePairOnceAllOfItRunsAndStartsAtBoot(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(*site)
		want   bool
	}{
		"all of it":              {func(*site) {}, true},
		"it does not run":        {func(s *site) { s.running = false }, false},
		"another host is listed": {func(s *site) { s.put(corosyncConf, strings.ReplaceAll(s.text(corosyncConf), "cp-2", "cp-3")) }, false},
		"it does not start at boot": {func(s *site) {
			s.programs["systemctl is-enabled --quiet pacemaker.service"] = func([]string) (string, error) { return "", errKilled }
		}, false},
	} {
		s := entered(t)
		c.change(s)
		if is, err := s.InPair(t.Context(), input()); err != nil || is != c.want {
			t.Errorf("%s: %t, %v", sentence, is, err)
		}
	}
	if is, err := newSite(t).InPair(t.Context(), input()); err != nil || is {
		t.Errorf("without a file: %t, %v", is, err)
	}
}

// TestPacemakerBeginsInMaintenance: the property is part of the one push with which it gets its resources.
func TestPacemakerBeginsInMaintenance(t *testing.T) {
	s := entered(t)
	var staged []string
	s.programs["pcs -f "] = func(args []string) (string, error) {
		staged = append(staged, strings.Join(args[2:], " "))
		return "", nil
	}
	pushed := 0
	s.programs["pcs cluster cib-push"] = func([]string) (string, error) {
		if !strings.Contains(strings.Join(staged, "\n"), "maintenance-mode=true") {
			t.Errorf("Pacemaker would act: %q", staged)
		}
		pushed++
		s.cib = strings.Replace(fixture(t, "ours.xml"), "</cluster_property_set>", `<nvpair id="m" name="maintenance-mode" value="true"/></cluster_property_set>`, 1)
		return "", nil
	}
	if err := s.ConfigureMaintained(t.Context(), input()); err != nil || pushed != 1 {
		t.Fatalf("%v, %d pushes", err, pushed)
	}
	if err := s.ConfigureMaintained(t.Context(), input()); err != nil || pushed != 1 {
		t.Errorf("the second run: %v, %d pushes", err, pushed)
	}
	have, err := twonode.ParseCIB([]byte(s.cib))
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := twonode.Steps(have, twonode.Wanted(input())); err != nil || len(steps) > 0 {
		t.Errorf("what Pacemaker has is not the usual configuration: %+v, %v", steps, err)
	}
	if err := s.Manage(t.Context()); err != nil || !s.ran("pcs property set maintenance-mode=false") {
		t.Errorf("%v, %q", err, s.runs)
	}
}

// TestTheKeeperIsToldWhatPacemakerWouldTellIt by the parameters of the resource.
func TestTheKeeperIsToldWhatPacemakerWouldTellIt(t *testing.T) {
	s := newStand(t)
	var told state.EtcdParameters
	s.Start = func(_ context.Context, p state.EtcdParameters) error { told = p; return nil }
	if err := s.AskEtcd(t.Context(), input()); err != nil {
		t.Fatal(err)
	}
	usual := state.UsualEtcdParameters()
	if told.PodManifest != usual.PodManifest || told.Backups != usual.Backups || told.Nodes["cp-2"] != netip.MustParseAddr("10.98.0.12") || len(told.Nodes) != 2 {
		t.Errorf("%+v", told)
	}
	in := input()
	in.Nodes[1].Address = "cp-2"
	if err := s.AskEtcd(t.Context(), in); err == nil {
		t.Error("an address that is none")
	}
}
