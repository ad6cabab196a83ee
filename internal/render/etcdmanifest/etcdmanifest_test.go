package etcdmanifest

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func spec(name, one, two string) Spec {
	return Spec{
		Name: name, Image: payload.Image("etcd"), CABundle: []byte("an authority\n"),
		Nodes: [2]Node{{"cp-1", netip.MustParseAddr(one)}, {"cp-2", netip.MustParseAddr(two)}},
	}
}

func render(t *testing.T, s Spec) []byte {
	t.Helper()
	out, err := Pod(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestManifests(t *testing.T) {
	golden.Check(t, "pod-ipv4.yaml", render(t, spec("cp-1", "10.98.0.11", "10.98.0.12")))
	golden.Check(t, "pod-ipv6.yaml", render(t, spec("cp-2", "fd98::11", "fd98::12")))
	large := spec("cp-1", "10.98.0.11", "10.98.0.12")
	large.Quota = 4
	golden.Check(t, "pod-quota.yaml", render(t, large))
}

func TestBothHostsAreToldTheSameMembers(t *testing.T) {
	one, two := spec("cp-1", "10.98.0.11", "10.98.0.12"), spec("cp-2", "10.98.0.11", "10.98.0.12")
	slices.Reverse(two.Nodes[:])
	const want = "--initial-cluster=cp-1=https://10.98.0.11:2380,cp-2=https://10.98.0.12:2380\n"
	for _, s := range []Spec{one, two} {
		if out := render(t, s); !strings.Contains(string(out), want) {
			t.Errorf("%s is not told %s:\n%s", s.Name, want, out)
		}
	}
}

func TestEtcdIsMadeAnewWhereItsAuthoritiesChange(t *testing.T) {
	s := spec("cp-1", "10.98.0.11", "10.98.0.12")
	before := render(t, s)
	if !bytes.Equal(before, render(t, s)) {
		t.Error("the same spec gives two manifests")
	}
	s.CABundle = []byte("another authority\n")
	one, err := etcdpod.Parse(before)
	two, again := etcdpod.Parse(render(t, s))
	if err != nil || again != nil || one.Revision == two.Revision {
		t.Errorf("the revision stays %s (%v, %v)", one.Revision, err, again)
	}
}

// The check asks the peer before etcd serves, which takes seconds if the peer
// is dead: docs/facts/etcd.md#the-shell-agent, H8.
func TestNothingIsCheckedWithThePeerBeforeTheStart(t *testing.T) {
	if out := render(t, spec("cp-1", "10.98.0.11", "10.98.0.12")); bytes.Contains(out, []byte("orrupt")) {
		t.Errorf("%s", out)
	}
}

func TestEveryMistakeOfASpecIsTold(t *testing.T) {
	_, err := Pod(Spec{Name: "cp-3", Nodes: [2]Node{{Name: "cp-1"}, {Name: "cp-1"}}})
	for _, want := range []string{"node 1", "node 2", "the same name", "no image", "authorities", "cp-3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell %q", err, want)
		}
	}
}
