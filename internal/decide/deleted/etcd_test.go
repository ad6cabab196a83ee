package deleted

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestEtcdIsSealedBeforeABootStartsItAndOnceItsDataAreGone goes through each combination of the facts.
func TestEtcdIsSealedBeforeABootStartsItAndOnceItsDataAreGone(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	facts := []state.Fact[bool]{yes, no, unknown}
	seals := map[Etcd]bool{
		// before a boot starts it, whatever is known of its data
		{Unsealed: true, Runs: no, Boot: true, Log: yes}:     true,
		{Unsealed: true, Runs: no, Boot: true, Log: no}:      true,
		{Unsealed: true, Runs: no, Boot: true, Log: unknown}: true,
		// later only where the data are known to be gone
		{Unsealed: true, Runs: no, Log: no}: true,
	}
	for _, unsealed := range []bool{true, false} {
		for _, boot := range []bool{true, false} {
			for _, log := range facts {
				for _, runs := range facts {
					for _, pod := range []bool{true, false} {
						e := Etcd{Unsealed: unsealed, Boot: boot, Log: log, Runs: runs}
						want := seals[e]
						if e.Pod = pod; e.Seals() != want {
							t.Errorf("%+v: want %t", e, want)
						}
					}
				}
			}
		}
	}
}

func TestDataOfEtcdThatAreGoneAreToldWithACommand(t *testing.T) {
	yes, no := state.Known(true), state.Known(false)
	for name, c := range map[string]struct {
		etcd    *Etcd
		command string
		says    string
	}{
		"no host of three":             {},
		"they are there":               {etcd: &Etcd{Pod: true, Log: yes, Gone: Settles}},
		"nobody knows":                 {etcd: &Etcd{Pod: true, Gone: Settles}},
		"for a moment":                 {etcd: &Etcd{Pod: true, Log: no, Gone: Settles - 1}},
		"somebody took etcd away":      {etcd: &Etcd{Log: no, Gone: Settles}},
		"etcd does not run":            {etcd: &Etcd{Pod: true, Log: no, Runs: no, Gone: Settles}, command: "findmnt --target /var/lib/etcd", says: "does not start from nothing"},
		"nobody knows whether it runs": {etcd: &Etcd{Pod: true, Log: no, Gone: Settles}, command: "findmnt --target /var/lib/etcd", says: "Mount it"},
		"etcd runs on":                 {etcd: &Etcd{Pod: true, Log: no, Runs: yes, Gone: Settles}, command: "sudo holdfast backup now", says: "the last ones"},
	} {
		in := whole()
		in.Etcd = c.etcd
		v := Decide(in)
		switch {
		case c.command == "" && len(v.Lost) == 0:
		case len(v.Lost) != 1 || v.Lost[0].What != state.EtcdDataDir || v.Lost[0].Command != c.command || !strings.Contains(v.Lost[0].Meaning, c.says):
			t.Errorf("%s: %+v", name, v.Lost)
		}
	}
}
