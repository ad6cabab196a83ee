package pacemakerstatus

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatTheLossOfAHostWouldComeTo(t *testing.T) {
	for name, want := range map[string][2]string{ // of cp-1, of cp-2
		"healthy":                  {"", ""},
		"device-cannot-start":      {"", "cp-2 cannot be fenced"},
		"device-on-its-own-target": {"", "cp-2 cannot be fenced"},
		"lost-fenced":              {"cp-2 is absent", ""},
		"etcd-failed":              {"", "etcd on cp-1 is not healthy"},
		"fencing-disabled":         {"fencing is disabled", "fencing is disabled"},
		"maintenance-mode":         {"in maintenance", "in maintenance"},
	} {
		in := input(t, name)
		in.Etcd = report(func(*state.EtcdSnapshot) {})
		got := Survives(Status(in))
		for i, words := range want {
			if got[i].Survives != (words == "") || !strings.Contains(got[i].Because, words) {
				t.Errorf("%s: %+v", name, got[i])
			}
		}
	}
	in := input(t, "healthy")
	for _, s := range Survives(Status(in)) {
		if s.Survives {
			t.Errorf("nobody knows what etcd holds: %+v", s)
		}
	}
}

func BenchmarkLook(b *testing.B) {
	text := recorded(b, "healthy")
	for b.Loop() {
		c, err := crmmon.Parse(text, noon.Location())
		if err != nil {
			b.Fatal(err)
		}
		_ = Timed(Status(Input{Host: "cp-1", Cluster: state.Known(c)}), nil, noon)
	}
}
