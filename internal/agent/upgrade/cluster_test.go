package upgrade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A host that left never has the power of a peer cut which it does not see: it could not
// go on alone, and the peer may be the only one that serves.
func TestAHostThatLeftStartsAsAtABootUnlessItSeesItsPeer(t *testing.T) {
	both := state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
	alone := state.Known(state.Membership{Members: []string{"cp-1"}, Quorate: true})
	for what, c := range map[string]struct {
		record  state.EtcdState
		members state.Fact[state.Membership]
		unit    string
		anew    bool
	}{
		"it left, and sees its peer":               {state.EtcdDeparting, both, "inactive", false},
		"it left, and does not see it":             {state.EtcdDeparting, alone, "inactive", true},
		"a learner":                                {state.EtcdLearner, alone, "inactive", true},
		"Corosync does not tell":                   {state.EtcdDeparting, state.Fact[state.Membership]{}, "inactive", true},
		"Pacemaker has failed":                     {state.EtcdDeparting, alone, "failed", true},
		"Pacemaker runs":                           {state.EtcdDeparting, alone, "active", false},
		"Pacemaker starts":                         {state.EtcdDeparting, alone, "activating", false},
		"cut off before it left: it may take over": {state.EtcdPair, alone, "inactive", false},
		"it went on alone":                         {state.EtcdSole, alone, "inactive", false},
		"it was about to":                          {state.EtcdTakingOver, alone, "inactive", false},
		"a third one votes: the majority decides":  {state.EtcdMajority, alone, "inactive", false},
		"the record cannot be read":                {"", alone, "inactive", false},
	} {
		m, _, orders := onDisk(t, parachute.OfTwo)
		if c.record == "" {
			putFile(t, records.Files{Root: m.root}.Path(state.EtcdRecordPath), "{")
		} else if err := (records.Files{Root: m.root}).WriteRecord(state.EtcdRecord{State: c.record, Cluster: 1, Member: 2, Third: 3, TakeOver: state.EtcdTakeOver{ID: "x"}}); err != nil {
			t.Fatal(err)
		}
		m.members = func(context.Context) state.Fact[state.Membership] { return c.members }
		tells := m.systemd
		m.systemd = func(ctx context.Context, args ...string) ([]byte, error) {
			if out, err := tells(ctx, args...); args[0] != "is-active" {
				return out, err
			}
			return []byte(c.unit + "\n"), errors.New("exit status 3")
		}
		if err := m.startPacemaker(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		want := []string{"is-active pacemaker.service", "restart corosync.service", "start --no-block pacemaker.service"}
		if !c.anew {
			want = slices.Delete(want, 1, 2)
		}
		if !slices.Equal(*orders, want) {
			t.Errorf("%s: %s, want %s", what, strings.Join(*orders, ", "), strings.Join(want, ", "))
		}
	}
}
