package dualstack

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/cni"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// secondV6 is the plan of a site that has IPv4, secondV4 of one that has IPv6.
var (
	secondV6 = decide.Plan{
		ID: "p", At: time.Unix(1, 0), Machines: "fd98::/64", Pods: config.ClusterNetworkEntry{CIDR: "fd44::/56", HostPrefix: 64}, Services: "fd96::/112",
		Hosts: map[string]decide.Host{"cp-1": {ControlPlane: true, Share: netip.MustParsePrefix("fd44:0:0:ff::/64")}},
	}
	secondV4 = decide.Plan{
		ID: "p", At: time.Unix(1, 0), Machines: "10.98.0.0/24", Pods: config.ClusterNetworkEntry{CIDR: "10.128.0.0/14", HostPrefix: 23}, Services: "172.30.0.0/16",
		Hosts: map[string]decide.Host{"cp-1": {ControlPlane: true, Share: netip.MustParsePrefix("10.131.254.0/23")}},
	}
)

// sites returns a site of one family, and the one that a plan makes of it.
func sites(t *testing.T, p decide.Plan) (have, want *site.Site) {
	t.Helper()
	have = sitetest.New(t, sitetest.OneNone+"proxy: {httpsProxy: \"http://10.97.0.1:3128\"}\n")
	if strings.HasPrefix(p.Machines, "10.") {
		have = sitetest.New(t, sitetest.ThreeV6)
	}
	both := *have
	both.Config = p.Config(have.Config)
	return have, &both
}

var (
	own    = []netip.Addr{netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("fd98::11")}
	shares = []netip.Prefix{netip.MustParsePrefix("10.128.2.0/23"), secondV6.Hosts["cp-1"].Share}
)

// TestTheManifestsAreThoseOfASiteThatWasInstalledWithBoth asks the release's kubeadm what it
// makes of both.
func TestTheManifestsAreThoseOfASiteThatWasInstalledWithBoth(t *testing.T) {
	program := builttest.Program(t, "kubeadm")
	made := func(s *site.Site, path string) []byte {
		conf, err := kubeadm.Init(s, state.HostFacts{NodeName: "cp-1", Addresses: own}, false)
		must(t, err)
		dir := t.TempDir()
		at := filepath.Join(dir, "kubeadm.yaml")
		must(t, os.WriteFile(at, conf, 0o600))
		_, err = host.Run(t.Context(), host.Cmd{
			Name: program, Args: []string{"init", "phase", "control-plane", "all", "--dry-run", "--config", at},
			Env: []string{"KUBEADM_INIT_DRYRUN_DIR=" + dir, "HTTP_PROXY=", "http_proxy=", "HTTPS_PROXY=", "https_proxy=", "NO_PROXY=", "no_proxy="},
		})
		must(t, err)
		data, err := os.ReadFile(filepath.Join(dir, filepath.Base(path)))
		must(t, err)
		return data
	}
	for name, p := range map[string]decide.Plan{"IPv6 is added": secondV6, "IPv4 is added": secondV4} {
		t.Run(name, func(t *testing.T) {
			have, want := sites(t, p)
			for _, pod := range pods {
				got, err := pod.both(made(have, pod.path), p)
				if diff := cmp.Diff(string(made(want, pod.path)), string(got)); err != nil || diff != "" {
					t.Errorf("%s: %v %s", pod.path, err, diff)
				}
			}
		})
	}
}

// machine is cp-1 in a folder. A test can cut its power at any write.
type machine struct {
	powercut.Cut
	*Host
}

const manager = "    - --cluster-cidr=10.128.0.0/14\n    - --service-cluster-ip-range=172.30.0.0/16\n    - --node-cidr-mask-size=23\n"

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{}
	m.Host = &Host{
		Root: t.TempDir(),
		Write: func(path string, data []byte, mode fs.FileMode, _, _ int) error {
			return m.Effect(func() error { return powercut.WriteFile(path, data, mode) })
		},
	}
	s, _ := sites(t, secondV6)
	data, err := s.For(state.RoleBootstrap).Settled().Marshal()
	must(t, err)
	put := func(path, data string) { must(t, powercut.WriteFile(m.at(path), []byte(data), 0o600)) }
	put(site.Path, string(data))
	put(keptDir+site.Path, string(data))
	put(serverPath, "    - --service-cluster-ip-range=172.30.0.0/16\n")
	put(managerPath, manager)
	put(keptDir+managerPath, manager)
	put(flagsPath, `KUBELET_KUBEADM_ARGS="--node-ip=10.98.0.11 --node-labels=x=y"`+"\n")
	put(cni.SubnetFile, "FLANNEL_NETWORK=10.128.0.0/14\nFLANNEL_SUBNET=10.128.2.1/23\nFLANNEL_MTU=1450\n")
	put(cni.ConfPath, "{}")
	said, err := json.Marshal(said("10.98.0.0/24"))
	must(t, err)
	put(settings.Path, string(said))
	put("/etc/holdfast/proxy.env", "NO_PROXY=10.98.0.0/24\n")
	return m
}

// said is what the API said of the site's network, with networks of its hosts. site.json knows nothing of
// the router ids.
func said(networks ...string) kube.Infrastructure {
	in := kube.Infrastructure{BareMetal: true, UserManaged: true, RouterIDs: state.RouterIDs{API: 7, Ingress: 8}}
	for _, n := range networks {
		in.MachineNetworks = append(in.MachineNetworks, netip.MustParsePrefix(n))
	}
	return in
}

func (m *machine) files(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(m.Root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		must(t, err)
		name := strings.TrimPrefix(path, m.Root)
		out[name] = string(data)
		if strings.HasSuffix(name, "site.json") {
			s, err := site.Unmarshal(data)
			must(t, err)
			out[name] = strings.Join(s.Config.Networking.ServiceNetwork, " ")
		}
		return nil
	}))
	return out
}

// TestTheFilesOfAHostGetBothFamiliesWhateverCutsThePower cuts the power before and after each
// write, and does it again.
func TestTheFilesOfAHostGetBothFamiliesWhateverCutsThePower(t *testing.T) {
	p := secondV6
	run := func(m *machine) error {
		if err := m.Serve(p); err != nil {
			return err
		}
		return m.Change(p, own, shares)
	}
	whole := newMachine(t)
	if is, err := whole.Serves(p); err != nil || is {
		t.Fatal(is, err)
	}
	must(t, run(whole))
	effects := whole.Effects
	want := whole.files(t)
	if is, err := whole.Serves(p); err != nil || !is {
		t.Error(is, err)
	}
	runtime, proxy := want[cni.ConfPath], want["/etc/holdfast/proxy.env"]
	for _, share := range []string{`"10.128.2.0/23"`, `"fd44:0:0:ff::/64"`} {
		if !strings.Contains(runtime, share) {
			t.Errorf("the container runtime lacks %s: %s", share, runtime)
		}
	}
	for _, network := range []string{"fd98::/64", "fd44::/56", "fd96::/112", "10.98.0.0/24"} {
		if !strings.Contains(proxy, network) {
			t.Errorf("%s goes through the proxy: %s", network, proxy)
		}
	}
	var kept kube.Infrastructure
	must(t, json.Unmarshal([]byte(want[settings.Path]), &kept))
	if diff := cmp.Diff(said("10.98.0.0/24", "fd98::/64"), kept, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("what the API said of the site's network: %s", diff)
	}
	both := strings.NewReplacer("/14\n", "/14,fd44::/56\n", "/16\n", "/16,fd96::/112\n", "size=23", "size-ipv4=23\n    - --node-cidr-mask-size-ipv6=64").Replace(manager)
	if diff := cmp.Diff(map[string]string{
		site.Path: "172.30.0.0/16 fd96::/112", keptDir + site.Path: "172.30.0.0/16 fd96::/112",
		serverPath: "    - --service-cluster-ip-range=172.30.0.0/16,fd96::/112\n", managerPath: both, keptDir + managerPath: both,
		flagsPath:      `KUBELET_KUBEADM_ARGS="--node-ip=10.98.0.11,fd98::11 --node-labels=x=y"` + "\n",
		cni.SubnetFile: "FLANNEL_NETWORK=10.128.0.0/14\nFLANNEL_SUBNET=10.128.2.1/23\nFLANNEL_MTU=1450\n",
		cni.ConfPath:   runtime, "/etc/holdfast/proxy.env": proxy, settings.Path: want[settings.Path],
	}, want); diff != "" {
		t.Error(diff)
	}
	for at := 1; at <= effects; at++ {
		for _, after := range []bool{false, true} {
			m := newMachine(t)
			m.At, m.After = at, after
			if err := run(m); !errors.Is(err, powercut.Err) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			m.Cut = powercut.Cut{}
			must(t, run(m))
			if diff := cmp.Diff(want, m.files(t)); diff != "" {
				t.Errorf("cut at %d: %s", at, diff)
			}
		}
	}
	must(t, run(whole))
	if diff := cmp.Diff(want, whole.files(t)); diff != "" {
		t.Errorf("done again: %s", diff)
	}
}

// TestAWorkerGetsBothFamiliesWithoutAnyKey: its site.json has none.
func TestAWorkerGetsBothFamiliesWithoutAnyKey(t *testing.T) {
	m := newMachine(t)
	s, _ := sites(t, secondV6)
	data, err := s.For(state.RoleWorker).Settled().Marshal()
	must(t, err)
	for _, path := range []string{site.Path, keptDir + site.Path} {
		must(t, powercut.WriteFile(m.at(path), data, 0o600))
	}
	// its Node was registered anew, and Kubernetes chose both shares
	must(t, m.Change(secondV6, own, []netip.Prefix{netip.MustParsePrefix("10.128.6.0/23"), netip.MustParsePrefix("fd44:0:0:7::/64")}))
	files := m.files(t)
	if got := files[site.Path]; got != "172.30.0.0/16 fd96::/112" {
		t.Errorf("site.json has %s", got)
	}
	if got := files[cni.ConfPath]; !strings.Contains(got, "fd44:0:0:7::/64") || !strings.Contains(got, "10.128.6.0/23") || strings.Contains(got, "10.128.2.0/23") {
		t.Errorf("the shares that the Node has are not those of the container runtime: %s", got)
	}
	if !strings.Contains(files["/etc/holdfast/proxy.env"], "fd96::/112") {
		t.Errorf("%s", files["/etc/holdfast/proxy.env"])
	}
}

func TestWhatTheAPISaidOfNoNetworkStaysAsItIs(t *testing.T) {
	m := newMachine(t)
	for _, text := range []string{"", "{", `{"BareMetal":true,"UserManaged":true}`} {
		must(t, os.WriteFile(m.at(settings.Path), []byte(text), 0o600))
		must(t, m.Change(secondV6, own, shares))
		if got := m.files(t)[settings.Path]; got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	must(t, os.Remove(m.at(settings.Path)))
	must(t, m.Change(secondV6, own, shares))
	if got, is := m.files(t)[settings.Path]; is {
		t.Errorf("the API has said nothing yet: %q", got)
	}
}

func TestAHostWhoseFilesAreOfAnotherKindIsLeftAlone(t *testing.T) {
	for name, path := range map[string]string{"no controller manager": managerPath, "no flags of kubelet": flagsPath, "no share of the pod network": cni.SubnetFile} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			must(t, os.Remove(m.at(path)))
			err := m.Serve(secondV6)
			if err == nil {
				err = m.Change(secondV6, own, shares)
			}
			if err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("%v", err)
			}
			if got := m.files(t)[site.Path]; got != "172.30.0.0/16" {
				t.Errorf("site.json has %s", got)
			}
		})
	}
}
