package etcdpod

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/golden"
	"github.com/holdfast/holdfast/internal/payload"
	"github.com/holdfast/holdfast/internal/state"
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
}

func TestAManifestReadsBackAsItsContainer(t *testing.T) {
	got, err := Parse(render(t, spec("cp-2", "fd98::11", "fd98::12")))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Revision) != 64 || got.Command[0] != "etcd" || !slices.Contains(got.Command, "--name=cp-2") {
		t.Errorf("got %+v", got)
	}
	got.Revision, got.Command = "", nil
	want := state.Container{Name: "etcd", Image: payload.Image("etcd"), Mounts: []state.Mount{
		{Source: CertsDir, Target: CertsDir, ReadOnly: true}, {Source: DataDir, Target: DataDir},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheAddressOfAHostIsReadBack(t *testing.T) {
	for _, s := range []Spec{spec("cp-1", "10.98.0.11", "10.98.0.12"), spec("cp-2", "fd98::11", "fd98::12")} {
		self, err := s.self()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := AddressOf(render(t, s)); err != nil || got != self.Address {
			t.Errorf("%v, %v; want %v", got, err, self.Address)
		}
	}
	if _, err := AddressOf([]byte("kind: Pod")); err == nil {
		t.Error("a manifest without etcd has an address")
	}
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
	one, err := Parse(before)
	two, again := Parse(render(t, s))
	if err != nil || again != nil || one.Revision == two.Revision {
		t.Errorf("the revision stays %s (%v, %v)", one.Revision, err, again)
	}
}

// The check asks the peer before etcd serves, which takes seconds where that is
// dead: docs/facts/etcd.md#the-shell-agent, H8.
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

func TestAManifestThatPodmanCannotFollowIsRefused(t *testing.T) {
	good := string(render(t, spec("cp-1", "10.98.0.11", "10.98.0.12")))
	for name, c := range map[string]struct{ old, now, want string }{
		"nothing":               {good, "", "one Pod"},
		"no YAML":               {good, "\t", "read etcd's pod"},
		"another kind":          {"kind: Pod", "kind: Job", "one Pod"},
		"an unknown field":      {"  hostNetwork: true", "  hostNetwork: true\n  hostNetwrk: true", "hostNetwrk"},
		"a network of its own":  {"hostNetwork: true", "hostNetwork: false", "hostNetwork"},
		"another container":     {"name: etcd\n    resources", "name: web\n    resources", "the name etcd"},
		"a volume that is none": {"      name: etcd-data\n", "      name: etcd-gone\n", "etcd-gone"},
		"part of a volume":      {"      name: etcd-data\n", "      name: etcd-data\n      subPath: a\n", "a part"},
		"a value of a secret":   {"    image:", "    env: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}]\n    image:", "plain values"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.now, 1)
			if bad == good {
				t.Fatal("the test changes nothing")
			}
			if got, err := Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want an error that says %q", got, err, c.want)
			}
		})
	}
}

func TestTheEnvironmentAndTheArgumentsAreTaken(t *testing.T) {
	good := string(render(t, spec("cp-1", "10.98.0.11", "10.98.0.12")))
	more := strings.Replace(good, "    image:", "    args: [--log-level=warn]\n    env: [{name: GOGC, value: \"50\"}]\n    image:", 1)
	got, err := Parse([]byte(more))
	if err != nil || !slices.Equal(got.Env, []string{"GOGC=50"}) || got.Command[len(got.Command)-1] != "--log-level=warn" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	out, _ := Pod(spec("cp-1", "10.98.0.11", "10.98.0.12"))
	f.Add(out)
	f.Fuzz(func(t *testing.T, manifest []byte) {
		if c, err := Parse(manifest); err == nil && (c.Name != "etcd" || len(c.Command) == 0 || c.Revision == "") {
			t.Errorf("%+v was taken", c)
		}
	})
}
