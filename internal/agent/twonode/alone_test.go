package twonode

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
)

func TestALoneHostEntersAClusterOfItsOwnOnce(t *testing.T) {
	s := newSite(t)
	if err := s.EnterAlone(t.Context(), input()); err != nil {
		t.Fatal(err)
	}
	conf, err := corosync.Parse([]byte(s.text(corosyncConf)))
	if err != nil {
		t.Fatal(err)
	}
	if len(conf.Nodes) != 1 || conf.Nodes[0].Name != "cp-1" || conf.TwoNode || twonode.CorosyncOf(conf).Plain() != "" {
		t.Errorf("corosync.conf: %+v", conf)
	}
	if s.text(CorosyncKey) == "" || !s.running || !s.ran("systemctl enable --quiet corosync.service pacemaker.service") {
		t.Errorf("there is no key, or the services do not run, now and at boot: %v", s.runs)
	}
	if strings.Contains(s.out.String(), token) {
		t.Error("the secret of the hosts is in the output")
	}
	s.runs = nil
	if err := s.EnterAlone(t.Context(), input()); err != nil || s.ran("pcs cluster setup") || s.ran("pcs cluster destroy") {
		t.Errorf("the second run: %v, ran %v", err, s.runs)
	}
}

func TestALoneHostNeverLeavesAClusterOfOthers(t *testing.T) {
	s := entered(t)
	before := s.text(corosyncConf)
	s.runs = nil
	if err := s.EnterAlone(t.Context(), input()); err == nil || s.text(corosyncConf) != before || s.ran("pcs cluster destroy") {
		t.Errorf("error %v, ran %v", err, s.runs)
	}
}

// A file that names a peer would make Pacemaker fence that peer, which was never there.
func TestAPowerCutNeverLeavesALoneHostWithACorosyncConfOfTwo(t *testing.T) {
	s := newSite(t)
	s.programs["systemctl enable --quiet corosync.service"] = func([]string) (string, error) { return "", errKilled }
	if err := s.EnterAlone(t.Context(), input()); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	conf, err := corosync.Parse([]byte(s.text(corosyncConf)))
	if err != nil || len(conf.Nodes) != 1 {
		t.Errorf("corosync.conf: %+v, %v", conf, err)
	}
}

func TestEtcdIsTakenFromKubeletOnce(t *testing.T) {
	s := newStand(t)
	s.put(staticPod, "kind: Pod\n")
	for range 2 {
		if err := s.TakeEtcd(); err != nil {
			t.Fatal(err)
		}
	}
	if has, err := s.KubeletHasEtcd(); has || err != nil || s.text(keptPod) != "kind: Pod\n" {
		t.Errorf("kubelet has etcd: %t, %v; kept is %q", has, err, s.text(keptPod))
	}
	if _, err := os.Stat(s.path(staticPod)); !errors.Is(err, os.ErrNotExist) {
		t.Error("kubelet's manifest is still there")
	}
}

func TestAHostWithoutAPeerHasNoDeviceOfOne(t *testing.T) {
	alone, both := twonode.Alone(input()), twonode.Wanted(input())
	if len(alone.Resources) != len(both.Resources)-1 || len(alone.Constraints) != len(both.Constraints)-1 || len(alone.Corosync.Nodes) != 1 {
		t.Errorf("%d resources, %d constraints", len(alone.Resources), len(alone.Constraints))
	}
	for _, r := range alone.Resources {
		if r.ID == twonode.DeviceOf("cp-2") {
			t.Errorf("%s is there", r.ID)
		}
	}
	// and the peer's parts are added without a change to the others
	steps, err := twonode.Steps(alone, both)
	if err != nil || len(steps) != 2 {
		t.Errorf("%d steps lead to two hosts: %+v, %v", len(steps), steps, err)
	}
}
