package standing

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestNobodyIsToldToEndAMaintenanceThatAPlanNeeds: kubelet and Pacemaker would both have etcd then.
func TestNobodyIsToldToEndAMaintenanceThatAPlanNeeds(t *testing.T) {
	k := slices.IndexFunc(ofCluster, func(r rule) bool { return r.id == ClusterInMaintenance })
	for _, of := range []struct {
		record state.EtcdState
		want   string
	}{{state.EtcdPair, "sudo pcs property set maintenance-mode=false"}, {state.EtcdMajority, "sudo holdfast topology apply"}} {
		record, want := of.record, of.want
		in := pacemakerstatus.Input{Host: "cp-1", Cluster: state.Known(crmmon.Cluster{})}
		in.Cluster.Value.Options.Maintenance = true
		in.Etcd = state.Known(state.EtcdReport{Snapshot: state.EtcdSnapshot{Record: state.Known(state.EtcdRecord{State: record})}})
		c := pacemakerstatus.Find(pacemakerstatus.Status(in).Conditions, ofCluster[k].condition)
		if c.Status != metav1.ConditionFalse {
			t.Fatalf("%s: %+v", record, c)
		}
		d := describer{}
		d.Hosts = []Host{{Name: "cp-1"}}
		d.Hosts[0].Record.Known, d.Hosts[0].Record.Value.State = true, record
		found := ofCluster[k].finding(c, "", d)
		if len(found) != 1 || !commands(found[0], want) || strings.Contains(found[0].Problem, "(") {
			t.Errorf("%s: %+v", record, found)
		}
	}
}

func commands(f finding.Finding, want string) bool {
	return len(f.Commands) == 1 && f.Commands[0].Line == want
}
