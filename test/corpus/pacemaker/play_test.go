package pacemaker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/test/twonode/witness"
)

// powerCut lists the states of one power cut in the lab, in their order: cp-1
// led etcd and was cut.
var powerCut = []string{
	"lab-pair", "lab-lost-unclean", "lab-fence-proven", "lab-lost-fenced", "lab-not-running-yet", "lab-just-started",
	"lab-started-without-history", "lab-resyncing", "lab-voter-before-pair", "lab-pair-again",
}

// within adds the membership of Corosync as that host's etcd keeper saw it.
func within(in pacemakerstatus.Input) pacemakerstatus.Input {
	if contact := in.Etcd.Value.Snapshot.Pacemaker.Contact; contact.Known {
		members := []string{in.Host}
		if contact.Value {
			members = []string{"cp-1", "cp-2"}
		}
		in.Membership = state.Known(state.Membership{Members: members, Quorate: !in.Etcd.Value.Snapshot.Pacemaker.Inert.Value})
	}
	return in
}

// TestOfARecordedPowerCutOneHostTellsOneSequence feeds the observations of both
// hosts to their decisions. At each moment at most one of them may write, and
// never the one that has just booted and takes its peer for lost.
func TestOfARecordedPowerCutOneHostTellsOneSequence(t *testing.T) {
	var r witness.Recording
	var before etcdv1.PacemakerClusterStatus
	quorate := map[string]time.Duration{"cp-1": time.Hour, "cp-2": time.Hour}
	for n, name := range powerCut {
		wrote := ""
		for _, host := range []string{"cp-1", "cp-2"} {
			dir := filepath.Join("cases", name, host)
			if _, err := os.Stat(dir); err != nil {
				quorate[host] = time.Second // it was off, and has just joined again
				continue
			}
			in := within(read(t, dir))
			in.QuorateFor = quorate[host]
			if writes, _ := pacemakerstatus.Writes(in, time.Second); !writes {
				continue
			}
			if wrote += host; wrote != host || in.Blind() {
				t.Errorf("%s: %s write, blind %v", name, wrote, in.Blind())
			}
			before = pacemakerstatus.Status(in.Patient(before, time.Second)) // as if each state came a second after the last
			values := witness.Conditions(etcdv1.PacemakerCluster{Status: before})
			r.Versions = append(r.Versions, witness.Version{Revision: int64(n), Values: values})
		}
		if wrote == "" {
			t.Errorf("%s: nobody writes", name)
		}
	}
	text := witness.Approved{}.With(r.Rows(witness.Names{"cp-1": "lost", "cp-2": "survivor"}))
	golden.Check(t, "power-cut.txt", []byte(text))
}
