package pacemakerstatus

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

func drifted(t *testing.T) Input {
	in := input(t, "healthy")
	in.Membership = state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
	in.Host = in.Cluster.Value.Coordinator
	in.Drift = state.Known([]twonode.Difference{
		{Words: "etcd: monitor on-fail is ignore, not restart", Ours: true}, {Words: "constraint x keeps etcd-clone from cp-2"},
	})
	return in
}

func TestAChangedSettingIsToldWhicheverItIs(t *testing.T) {
	c := Find(Status(drifted(t)).Conditions, SettingsAsExpected)
	if c.Status != metav1.ConditionFalse || c.Message != "constraint x keeps etcd-clone from cp-2; etcd: monitor on-fail is ignore, not restart" {
		t.Errorf("%+v", c)
	}
}

func TestWhoSetsSettingsBackAndWhoLeavesThem(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   bool
	}{
		"the host that decides for Pacemaker":      {func(*Input) {}, true},
		"the other one":                            {func(in *Input) { in.Host = "cp-9" }, false},
		"a person works in maintenance mode":       {func(in *Input) { in.Cluster.Value.Options.Maintenance = true }, false},
		"a host without quorum":                    {func(in *Input) { in.Cluster.Value.Quorate = state.Known(false) }, false},
		"a host that cannot see":                   {func(in *Input) { in.Membership.Value.Quorate = false }, false},
		"where only a person's own are in the way": {func(in *Input) { in.Drift.Value = in.Drift.Value[1:] }, false},
		"before the set-up":                        {func(in *Input) { in.Drift = state.Fact[[]twonode.Difference]{} }, false},
		"fencing is disabled, and the peer is lost": {func(in *Input) {
			in.Cluster.Value.Options.FencingEnabled = false
			in.Membership.Value.Members = []string{in.Host}
		}, true},
	} {
		in := drifted(t)
		c.change(&in)
		if _, got := in.SetsBack(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	other := drifted(t)
	other.Host = "cp-9"
	other.Drift.Value = append(other.Drift.Value, twonode.Difference{Words: "corosync.conf: token is 3, not 1500", Ours: true, Own: true})
	if own, decides := other.SetsBack(); !own || decides {
		t.Errorf("a host that does not decide sets its own file back: %t, and no more: %t", own, decides)
	}
	in := drifted(t)
	in.Cluster.Value.Options.Maintenance = true
	if c := Find(Status(in).Conditions, SettingsAsExpected); !strings.Contains(c.Message, "not set back while maintenance-mode is on: etcd: monitor") {
		t.Errorf("%+v", c)
	}
}
