package apilb

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Three states of a load balancer.
func silent() state.Fact[state.Balancer] { return state.Fact[state.Balancer]{} }

func says(ready, reached bool) state.Fact[state.Balancer] {
	return state.Known(state.Balancer{Backends: map[string]bool{"cp-1": ready}, Reached: map[string]bool{"cp-1": reached}})
}

// follow plays the states of the load balancer at their seconds, and lists the
// results: "on", "off" or "kept".
func follow(t *testing.T, moments []moment) []string {
	t.Helper()
	var m Memory
	var out []string
	start := time.Unix(1e9, 0)
	for _, at := range moments {
		v := site([]string{"fd98::5", "10.98.0.5"}, nil)
		v.Balancer = at.says
		var got state.Fact[Redirect]
		got, m, _ = Next(m, v, start.Add(at.after))
		switch {
		case !got.Known:
			out = append(out, "kept")
		case len(got.Value.VIPs) == 0:
			out = append(out, "off")
		default:
			out = append(out, "on")
		}
	}
	return out
}

type moment struct {
	after time.Duration
	says  state.Fact[state.Balancer]
	want  string
}

func TestTheRedirectFollowsTheBalancer(t *testing.T) {
	ready, overloaded, dead := says(true, true), says(false, true), says(false, false)
	const s = time.Second
	for name, moments := range map[string][]moment{
		"on as soon as one API server lives":           {{0, ready, "on"}},
		"what an earlier run left stays for a while":   {{0, silent(), "kept"}, {FirstAnswer - 1, silent(), "kept"}, {FirstAnswer, silent(), "off"}},
		"B32 without any API server it never comes":    {{0, dead, "off"}, {100 * s, dead, "off"}},
		"an unready one does not bring it":             {{0, overloaded, "off"}, {1 * s, ready, "on"}},
		"HardCase03 haproxy gone: off at once":         {{0, ready, "on"}, {1 * s, silent(), "off"}, {2 * s, ready, "on"}},
		"HardCase06 all overloaded: it stays":          {{0, ready, "on"}, {1 * s, overloaded, "on"}, {1000 * s, overloaded, "on"}},
		"B39 a restart of the API servers: it stays":   {{0, ready, "on"}, {1 * s, dead, "on"}, {3 * s, dead, "on"}, {3900 * time.Millisecond, ready, "on"}},
		"B32 no API server for longer: off":            {{0, ready, "on"}, {1 * s, dead, "on"}, {4 * s, dead, "off"}, {5 * s, overloaded, "off"}, {6 * s, ready, "on"}},
		"overload in between begins the patience anew": {{0, ready, "on"}, {1 * s, dead, "on"}, {2 * s, overloaded, "on"}, {4 * s, dead, "on"}, {6 * s, dead, "on"}, {7 * s, dead, "off"}},
	} {
		var want []string
		for _, m := range moments {
			want = append(want, m.want)
		}
		if diff := cmp.Diff(want, follow(t, moments)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestTheRedirectAsksToBeDecidedAgain(t *testing.T) {
	now := time.Unix(1e9, 0)
	v := site([]string{"10.98.0.5"}, nil)
	_, m, again := Next(Memory{}, v, now)
	if want := now.Add(FirstAnswer); !again.Equal(want) {
		t.Errorf("silent from the start: again at %v, want %v", again, want)
	}
	v.Balancer = says(true, true)
	_, m, again = Next(m, v, now)
	if !again.IsZero() {
		t.Errorf("ready: again at %v", again)
	}
	v.Balancer = says(false, false)
	_, _, again = Next(m, v, now)
	if want := now.Add(Fruitless); !again.Equal(want) {
		t.Errorf("dead: again at %v, want %v", again, want)
	}
}

// H4: the redirect has the present VIPs, in whatever order and spelling they come.
func TestH4_TheRedirectIsKeyedByTheVIPs(t *testing.T) {
	v := site([]string{"fd98::5", "10.98.0.5"}, nil)
	v.Balancer = says(true, true)
	same := v
	same.Settings.APIVIPs = addrs("::ffff:10.98.0.5", "fd98:0::5", "10.98.0.5")
	a, m, _ := Next(Memory{}, v, time.Unix(1, 0))
	b, _, _ := Next(m, same, time.Unix(2, 0))
	if !slices.Equal(a.Value.VIPs, b.Value.VIPs) {
		t.Errorf("%v and %v", a.Value.VIPs, b.Value.VIPs)
	}
	same.Settings.APIVIPs = addrs("10.98.0.7")
	if c, _, _ := Next(m, same, time.Unix(3, 0)); len(c.Value.VIPs) != 1 || c.Value.VIPs[0] != addrs("10.98.0.7")[0] {
		t.Errorf("another VIP: %v", c.Value.VIPs)
	}
}

func TestAHostThatDoesNotBalanceHasNoTable(t *testing.T) {
	v := site([]string{"10.98.0.5"}, nil)
	v.Balancer = says(true, true)
	v.Role = state.RoleWorker
	if got, _, _ := Next(Memory{On: true}, v, time.Unix(1, 0)); !got.Known || got.Value.Table {
		t.Errorf("a worker: %v", got)
	}
	v.Settings = state.NetworkSettings{}
	if got, _, _ := Next(Memory{On: true}, v, time.Unix(1, 0)); got.Known {
		t.Errorf("without settings: %v", got)
	}
}
