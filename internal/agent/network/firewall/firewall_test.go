package firewall

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	_ network.Reconciler = (*Reconciler)(nil)
	_ network.Source     = (*Reconciler)(nil)
)

// fake is a table in memory.
type fake struct {
	mu    sync.Mutex
	is    ports.Rules
	sets  int
	looks int
	err   error
	told  chan struct{}
}

func (f *fake) Set(r ports.Rules) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	if f.err != nil || reflect.DeepEqual(f.is, r) {
		return false, f.err
	}
	f.is, f.sets = r, f.sets+1
	return true, nil
}

func (f *fake) Watch(ctx context.Context, told func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.told:
			told()
		}
	}
}

func (f *fake) set(name string) []netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.is.Sets {
		if s.Name == name {
			return s.Addresses
		}
	}
	return nil
}

type bench struct {
	*Reconciler
	t     *testing.T
	table *fake
	log   strings.Builder
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, table: &fake{told: make(chan struct{})}}
	b.Reconciler = New(Options{
		Root: t.TempDir(), Flannel: true, BMCs: []string{"10.99.0.111", "bmc-2.site"},
		Table: b.table, Now: time.Now, Logf: func(f string, args ...any) { b.log.WriteString(f + "\n") },
		Site: func(context.Context, ports.Kind, ports.Place) ([]state.SiteFirewall, error) {
			return []state.SiteFirewall{{Name: "firewalld", Cluster: []string{"2380/tcp"}}}, nil
		},
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if name == "bmc-2.site" {
				return []netip.Addr{netip.MustParseAddr("10.99.0.112")}, nil
			}
			return nil, errors.New("no such host")
		},
	})
	return b
}

func (b *bench) write(path, text string) {
	b.t.Helper()
	at := filepath.Join(b.Root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func view() state.NetworkView {
	plane := func(name, address string) state.Node {
		return state.Node{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	return state.NetworkView{
		Role: state.RoleMaster, Stage: state.StageInstalled, LocalAPI: state.Known(true), Host: state.HostFacts{NodeName: "cp-1", Interface: "eth0"},
		Settings: state.NetworkSettings{
			ControlPlanes: 2, Fencing: true, MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")},
			PodNetworks: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")},
		},
		Nodes: state.Known([]state.Node{plane("cp-1", "10.98.0.11"), plane("cp-2", "10.98.0.12")}),
	}
}

// running runs the reconciler in the bubble of a test, until the test ends.
func (b *bench) running() <-chan state.NetworkView {
	ctx, stop := context.WithCancel(b.t.Context())
	told, ended := make(chan state.NetworkView, 16), make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.Run(ctx, func(change func(*state.NetworkView)) {
			var v state.NetworkView
			change(&v)
			told <- v
		})
	}()
	b.t.Cleanup(func() { stop(); <-ended })
	return told
}

func (b *bench) reconcile(v state.NetworkView) string {
	b.t.Helper()
	said, err := b.Reconcile(b.t.Context(), v)
	if err != nil {
		b.t.Fatal(err)
	}
	return said
}

func TestTheTableIsWrittenOnceAndFollowsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		if said := b.reconcile(view()); !strings.Contains(said, "the machine networks may reach the ports of control planes") {
			t.Errorf("said %q", said)
		}
		if said := b.reconcile(view()); said != "" || b.table.sets != 1 || b.table.looks != 1 {
			t.Errorf("said %q, %d writes, %d looks", said, b.table.sets, b.table.looks)
		}
		more := view()
		more.Nodes.Value = append(slices.Clone(more.Nodes.Value), state.Node{Name: "w-1", Labels: map[string]string{state.LabelWorker: ""}, Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.21")}})
		b.reconcile(more)
		if got := b.table.set("hosts4"); len(got) != 3 {
			t.Errorf("%v", got)
		}
	})
}

func TestRulesBecomeNarrowByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running()
		b.reconcile(view())
		time.Sleep(3 * minInterval)
		synctest.Wait()
		b.reconcile(view())
		time.Sleep(ports.Tighten)
		synctest.Wait()
		if said := b.reconcile(view()); strings.Contains(said, "machine networks") || said == "" {
			t.Errorf("said %q", said)
		}
	})
}

func TestATableThatSomebodyTookAwayIsBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running()
		b.reconcile(view())
		time.Sleep(2 * minInterval)
		b.table.mu.Lock()
		b.table.is = ports.Rules{}
		b.table.mu.Unlock()
		b.table.told <- struct{}{}
		time.Sleep(2 * minInterval)
		synctest.Wait()
		if b.table.set("hosts4") == nil {
			t.Error("it is not back")
		}
		if said := b.reconcile(view()); !strings.Contains(said, "which had been changed by another program or by hand") {
			t.Errorf("said %q", said)
		}
	})
}

func TestWhatTheDiskSaysIsInTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running()
		b.write(corosync.Path, "totem {\n cluster_name: x\n}\nnodelist {\n node {\n  ring0_addr: 10.98.0.11\n  ring1_addr: 10.97.0.11\n  name: cp-1\n }\n node {\n  ring0_addr: 10.98.0.12\n  ring1_addr: 10.97.0.12\n  name: cp-2\n }\n}\n")
		b.write(state.FencingDir+"/cp-2.json", `{"target":"cp-2","address":"https://10.99.0.99/redfish/v1/Systems/1","username":"u","password":"p"}`)
		b.write(state.FirewallAlsoPath, "10.20.0.7\nnonsense\n")
		_, err := b.Reconcile(t.Context(), view())
		if err == nil || !strings.Contains(err.Error(), `/etc/holdfast/firewall: line 2: "nonsense" is not an address`) {
			t.Error(err)
		}
		if got := b.table.set("control-planes4"); !slices.Contains(got, netip.MustParseAddr("10.97.0.12")) {
			t.Errorf("the second link is not known: %v", got)
		}
		b.table.mu.Lock()
		if !slices.ContainsFunc(b.table.is.Input, func(r ports.Rule) bool { return slices.Contains(r.Nets, netip.MustParsePrefix("10.20.0.7/32")) }) {
			t.Error("whom a person let in is not")
		}
		b.table.mu.Unlock()
		time.Sleep(3 * minInterval)
		synctest.Wait()
		want := []netip.Addr{netip.MustParseAddr("10.99.0.99"), netip.MustParseAddr("10.99.0.111"), netip.MustParseAddr("10.99.0.112")}
		if got := b.table.set("bmcs4"); !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
		b.write(corosync.Path, "totem {") // being written
		_, _ = b.Reconcile(t.Context(), view())
		if got := b.table.set("control-planes4"); !slices.Contains(got, netip.MustParseAddr("10.97.0.12")) {
			t.Errorf("a half file took the peer away: %v", got)
		}
		b.write(state.FirewallAlsoPath, "off\n")
		time.Sleep(2 * readEvery)
		synctest.Wait()
		if b.table.is.On {
			t.Error("a person wants no rules")
		}
	})
}

// A host that was replaced has another management controller. The hosts that were installed
// before know it from the control planes that fence by it.
func TestPodsAreKeptFromTheControllersThatControlPlanesTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running()
		v := view()
		v.Role, v.Host.NodeName = state.RoleWorker, "w-1"
		tells := func(bmcs ...string) map[string]string {
			return map[string]string{state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{BMCs: bmcs})}
		}
		v.Nodes.Value[0].Annotations = tells("10.99.0.113")
		v.Nodes.Value[1].Annotations = tells("10.99.0.111", "bmc-2.site")
		v.Nodes.Value = append(v.Nodes.Value, state.Node{Name: "w-1", Labels: map[string]string{state.LabelWorker: ""}, Annotations: tells("10.98.0.5")})
		b.reconcile(v)
		time.Sleep(3 * minInterval)
		synctest.Wait()
		want := []netip.Addr{netip.MustParseAddr("10.99.0.111"), netip.MustParseAddr("10.99.0.112"), netip.MustParseAddr("10.99.0.113")}
		if got := b.table.set("bmcs4"); !slices.Equal(got, want) {
			t.Errorf("pods are kept from %v, want %v: what a worker says counts for nothing", got, want)
		}
	})
}

// A control plane tells a controller by its name ten minutes before the next look is due.
func TestAControllerThatIsToldByNameIsLookedUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		lookups := 0
		b.Resolve = func(_ context.Context, name string) ([]netip.Addr, error) {
			if lookups++; name == "bmc-9.site" {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{map[string]netip.Addr{"bmc-2.site": netip.MustParseAddr("10.99.0.112"), "bmc-3.site": netip.MustParseAddr("10.99.0.113")}[name]}, nil
		}
		b.running()
		b.reconcile(view())
		time.Sleep(lookEvery / 2)
		v := view()
		tells := func(bmc string) {
			v.Nodes.Value[0].Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{BMCs: []string{bmc}})}
			b.reconcile(v)
			time.Sleep(3 * minInterval)
			synctest.Wait()
		}
		tells("bmc-3.site")
		if got := b.table.set("bmcs4"); !slices.Contains(got, netip.MustParseAddr("10.99.0.113")) {
			t.Errorf("pods are kept from %v", got)
		}
		tells("bmc-9.site")
		lookups = 0
		for range 10 {
			tells("bmc-9.site")
		}
		if lookups > 0 {
			t.Errorf("a name that nobody knows was looked up %d times more within half a minute", lookups)
		}
	})
}

// The agent starts where no name server answers.
func TestAControllersAddressOutlivesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newBench(t)
		first.running()
		first.reconcile(view())
		time.Sleep(3 * minInterval)
		synctest.Wait()
		for file, want := range map[string]bool{"": true, "null": false, `{"bmc-2.site":["10.9`: false} {
			second := newBench(t)
			second.Root = first.Root
			second.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no name server") }
			if file != "" {
				second.Root = t.TempDir()
				second.write(namesPath, file)
			}
			second.running()
			second.reconcile(view())
			time.Sleep(3 * minInterval)
			synctest.Wait()
			if got := second.table.set("bmcs4"); slices.Contains(got, netip.MustParseAddr("10.99.0.112")) != want {
				t.Errorf("file %q: pods are kept from %v", file, got)
			}
		}
	})
}

func TestAnAddressThatCouldNotBeKeptIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.write("/var/lib/holdfast/network", "a file in the place of the folder")
		b.running()
		b.reconcile(view())
		time.Sleep(3 * minInterval)
		synctest.Wait()
		if err := os.Remove(filepath.Join(b.Root, "/var/lib/holdfast/network")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookAgain)
		synctest.Wait()
		if data, err := os.ReadFile(filepath.Join(b.Root, namesPath)); err != nil || !strings.Contains(string(data), "10.99.0.112") {
			t.Errorf("%s, %v", data, err)
		}
	})
}

// TestAThirdControlPlaneThatAPlanLetsInReachesEtcdBeforeItHasANode: the second play of it in the lab
// waited for good, because the rules of the two had become narrow by then.
func TestAThirdControlPlaneThatAPlanLetsInReachesEtcdBeforeItHasANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running()
		third := netip.MustParseAddr("10.98.0.13")
		for _, step := range []struct {
			plan string
			in   bool
		}{
			{"", false},
			{`{"format":1,"widens":true,"stage":"planned","new":{"name":"cp-3","address":"10.98.0.13"}}`, true},
			{`{"format":1,"widens":true,"stage":"coming","new":{"name":"cp-3","address":"10.98.0.13"}}`, true},
			{`{"format":1,"widens":tr`, true}, // being written
			{`{"format":1,"widens":true,"stage":"whole","new":{"name":"cp-3","address":"10.98.0.13"}}`, false},
		} {
			if step.plan != "" {
				b.write(replacement.WidenPlanPath, step.plan)
			}
			_, _ = b.Reconcile(t.Context(), view())
			if got := b.table.set("control-planes4"); slices.Contains(got, third) != step.in {
				t.Errorf("%s: %v", step.plan, got)
			}
		}
	})
}

func TestWhatAFirewallOfTheSiteRefusesIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		told := b.running()
		b.reconcile(view())
		time.Sleep(3 * minInterval)
		if v := <-told; !v.SiteFirewalls.Known || v.SiteFirewalls.Value[0].Name != "firewalld" {
			t.Errorf("%+v", v.SiteFirewalls)
		}
		time.Sleep(3 * lookEvery)
		synctest.Wait()
		if n := strings.Count(b.log.String(), "refuses"); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

func TestAKernelThatRefusesIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.table.err = errors.New("no nf_tables")
		for range 2 {
			if _, err := b.Reconcile(t.Context(), view()); err == nil {
				t.Error("the error is not told")
			}
		}
		b.table.err = nil
		if said := b.reconcile(view()); said == "" || b.table.sets != 1 {
			t.Errorf("said %q", said)
		}
	})
}
