package grow

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// narrower returns a living site of three control planes, the one of two that it becomes, and the one of
// three that it is after the way back.
func narrower(t *testing.T, text string) (installed, have, want, back *site.Site) {
	t.Helper()
	from, to := strings.Index(text, "controlPlane:"), strings.Index(text, "networking:")
	installed = sitetest.New(t, text[:from]+"controlPlane: {replicas: 3}\n"+text[to:])
	have = installed.For(state.RoleMaster).Settled()
	want, err := decide.Narrowed(have, sitetest.New(t, text).Config, [2]string{"cp-1", "cp-2"})
	must(t, err)
	back, err = decide.ThreeOf(want)
	must(t, err)
	return installed, have, want, back
}

// boot plays a power cut: what is enabled runs, and nothing is masked for this boot.
func (m *machine) boot() {
	m.At, m.Dead = 0, false
	m.masked = map[string]bool{}
	for u := range m.on {
		m.active[u] = m.on[u]
	}
}

// TestOneOfThreeIsEquippedAsOneOfTwoAndStaysOneOfThree: site.json changes only by Prepare, which then
// finds nothing else to do but to start the etcd keeper.
func TestOneOfThreeIsEquippedAsOneOfTwoAndStaysOneOfThree(t *testing.T) {
	_, have, want, _ := narrower(t, sitetest.TwoDual)
	for at := 0; ; at++ {
		m := newMachine(t, have)
		was := m.read(site.Path)
		m.At, m.After = at, at%2 == 0
		err := m.host().Equip(t.Context(), want)
		if err != nil && !errors.Is(err, powercut.Err) {
			t.Fatalf("cut %d: %v", at, err)
		}
		if err != nil {
			m.boot()
			must(t, m.host().Equip(t.Context(), want))
		}
		if m.read(site.Path) != was {
			t.Fatalf("cut %d: site.json is another", at)
		}
		for _, u := range clusterUnits {
			if m.active[u] || m.on[u] || m.masked[u] {
				t.Errorf("cut %d: %s is not left alone", at, u)
			}
		}
		m.At = 0
		must(t, m.host().Prepare(t.Context(), want))
		if lacks := m.ready(); len(lacks) > 0 || !m.two() {
			t.Errorf("cut %d: one of two: %t, and it lacks %q", at, m.two(), lacks)
		}
		if at > 0 && err == nil {
			if at < 10 {
				t.Fatalf("only %d effects", at)
			}
			return
		}
	}
}

// TestWhatOneOfThreeGotOfTwoIsTakenAway whether or not its site.json says two by then.
func TestWhatOneOfThreeGotOfTwoIsTakenAway(t *testing.T) {
	_, have, want, back := narrower(t, sitetest.TwoDual)
	for sentence, bring := range map[string]func(*Host) error{
		"equipped": func(h *Host) error { return h.Equip(t.Context(), want) },
		"dressed":  func(h *Host) error { return h.Prepare(t.Context(), want) },
	} {
		m := newMachine(t, have)
		must(t, bring(m.host()))
		if len(m.left(t, want, back)) < 4 {
			t.Fatalf("%s: it has only %q", sentence, m.left(t, want, back))
		}
		must(t, m.host().Strip(t.Context(), want, back))
		must(t, m.host().Undress(t.Context(), back))
		if left := m.left(t, want, back); m.two() || len(left) > 0 || strings.Contains(m.read(renderhost.PackagesPath), "corosync") {
			t.Errorf("%s: one of two: %t, left are %q", sentence, m.two(), left)
		}
	}
}

// untilAllowed runs do until no guard refuses it, as the agents do: an API server goes on with a guard
// for a moment after it was changed or deleted. refused runs each time that one refuses.
func untilAllowed(t *testing.T, do func() error, refused func()) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := do()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "denied request") || time.Now().After(deadline) {
			t.Fatal(err)
		}
		refused()
		time.Sleep(250 * time.Millisecond)
	}
}

// toThree makes a cluster of two one of three. The operator, which is not there, follows what is lifted.
func toThree(t *testing.T, api *apitest.API, client *kube.Client, have, want *site.Site) {
	t.Helper()
	changes, err := Fewer(have, want)
	must(t, err)
	lift := sync.OnceFunc(func() {
		for _, name := range []string{"holdfast-topology", "holdfast-etcd-hand-over"} {
			api.Kubectl(t, "patch", "validatingadmissionpolicybinding", name, "--type=merge", "--patch", `{"spec":{"validationActions":["Warn","Audit"]}}`)
		}
	})
	untilAllowed(t, func() error {
		_, err := Shrink(t.Context(), client.Bringer(), changes, []string{"cp-1", "cp-2"}, "the site stays one of three control planes", time.Now())
		return err
	}, lift)
}

func TestALivingClusterOfThreeBecomesOneOfTwoAndBack(t *testing.T) {
	api := apitest.Own(t)
	installed, two, have := wider(t, reachable(sitetest.TwoDual))
	want, err := decide.Narrowed(have, sitetest.New(t, reachable(sitetest.TwoDual)).Config, [2]string{"cp-1", "cp-2"})
	must(t, err)
	files, err := installer.Objects(installed)
	must(t, err)
	client, err := kube.Open(api.Kubeconfig())
	must(t, err)
	api.Install(t, files)
	toThree(t, api, client, two, have)
	look := func(sentence, topology, etcd, replicas string, secrets int) {
		t.Helper()
		get := func(args ...string) string {
			return strings.TrimSpace(api.Kubectl(t, append([]string{"get"}, args...)...))
		}
		if got := get("infrastructure", "cluster", "-o", `jsonpath={.status.controlPlaneTopology} {.status.infrastructureTopology}`); got != topology {
			t.Errorf("%s: the topology: %s", sentence, got)
		}
		if got := get("etcds.operator.openshift.io", "-o", "name"); got != etcd {
			t.Errorf("%s: who runs etcd: %q", sentence, got)
		}
		if got := len(strings.Fields(get("secrets", "-n", manifests.NamespaceEtcd, "-o", "name"))); got != secrets {
			t.Errorf("%s: %d Secrets", sentence, got)
		}
		if config := get("configmap", "cluster-config-v1", "-n", "kube-system", "-o", "yaml"); !strings.Contains(config, replicas) || strings.Contains(config, "hush-") {
			t.Errorf("%s: the cluster's copy of the install-config:\n%s", sentence, config)
		}
	}
	look("three", "HighlyAvailable HighlyAvailable", "", "replicas: 3", 0)

	changes, err := Objects(have, want)
	must(t, err)
	if _, err := Apply(t.Context(), &cut{API: client.Bringer(), at: 7}, changes); !errors.Is(err, errCut) {
		t.Fatalf("not cut: %v", err)
	}
	var left []Left
	untilAllowed(t, func() (err error) {
		left, err = Apply(t.Context(), client.Bringer(), changes)
		return err
	}, func() {})
	if len(left) > 0 {
		t.Errorf("left as it is: %+v", left)
	}
	must(t, client.PutSecret(t.Context(), manifests.NamespaceEtcd, "pacemaker-auth", map[string][]byte{"token": []byte("x")}))
	look("two", "DualReplica HighlyAvailable", "etcd.operator.openshift.io/cluster", "replicas: 2", 3)
	toThree(t, api, client, want, have)
	look("taken back", "HighlyAvailable HighlyAvailable", "", "replicas: 3", 0)
}
