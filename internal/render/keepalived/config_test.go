package keepalived

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// networks lists the machine networks of each family in the golden files.
var networks = map[string][]string{"v4": {"10.98.0.%d"}, "v6": {"fd98::%d"}, "dual": {"10.98.0.%d", "fd98::%d"}}

func each(patterns []string, last int) []netip.Addr {
	var out []netip.Addr
	for _, p := range patterns {
		out = append(out, netip.MustParseAddr(fmt.Sprintf(p, last)))
	}
	return out
}

// hostView returns the view of host 11 of that many control planes, or of host
// 21, a worker.
func hostView(family string, controlPlanes int, self int) state.NetworkView {
	p := networks[family]
	v := state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "shop", ManagedVIPs: true, ControlPlanes: controlPlanes, Fencing: controlPlanes == 2,
			APIVIPs: each(p, 5), IngressVIPs: each(p, 6),
		},
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Host: state.HostFacts{NodeName: fmt.Sprint("h", self), Interface: "eth0", Addresses: each(p, self)},
	}
	var nodes []state.Node
	for n := 11; n < 11+controlPlanes; n++ {
		nodes = append(nodes, state.Node{Name: fmt.Sprint("h", n), Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: each(p, n)})
	}
	if self == 21 {
		v.Role = state.RoleWorker
		nodes = append(nodes, state.Node{Name: "h21", Labels: map[string]string{state.LabelWorker: ""}, Addresses: each(p, 21)})
	}
	v.Nodes = state.Known(nodes)
	for _, a := range v.Host.Addresses {
		v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Index: 2, Prefix: netip.PrefixFrom(a, a.BitLen()*3/4), Usable: true})
	}
	return v
}

// hosts returns one view for each golden file.
func hosts() map[string]state.NetworkView {
	out := map[string]state.NetworkView{}
	for family := range networks {
		for name, n := range map[string]int{"one": 1, "two": 2, "three": 3, "five": 5} {
			out[name+"-"+family] = hostView(family, n, 11)
		}
		out["worker-"+family] = hostView(family, 3, 21)
		boot := hostView(family, 3, 11)
		boot.Role, boot.Stage, boot.Nodes = state.RoleBootstrap, state.StageInstalling, state.Fact[[]state.Node]{}
		out["bootstrap-"+family] = boot
	}
	sync := hostView("dual", 3, 11)
	sync.Settings.SyncFamilies, sync.Settings.RouterIDs = true, state.RouterIDs{API: 200, Ingress: 201}
	out["three-dual-sync"] = sync
	fenced := hostView("v4", 2, 11)
	fenced.MayHold = state.Known(false)
	out["two-v4-fenced"] = fenced
	return out
}

func TestAHostsConfigurationMatchesTheApprovedFile(t *testing.T) {
	for name, v := range hosts() {
		t.Run(name, func(t *testing.T) {
			verdict := vrrp.Instances(v)
			if !verdict.Known {
				t.Fatal(verdict.Why)
			}
			got, err := Render(HostOf(verdict, v.Settings))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("host", name+".conf"), got)
		})
	}
}

// keepalived itself reads every golden file, in a network namespace with the
// interfaces that the file names.
func TestKeepalivedAcceptsEveryApprovedFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED, since this is not root: it needs network namespaces")
	}
	files, err := filepath.Glob("testdata/host/*.conf")
	if err != nil || len(files) < len(hosts()) {
		t.Fatalf("%d goldens, %v", len(files), err)
	}
	script := `ip link add eth0 type veth peer name eth9 && ip link set eth0 up && for f in "$@"; do echo "== $f"; PATH=$PATH:/usr/sbin keepalived --config-test --use-file="$f" --log-console || exit; done`
	out, err := exec.CommandContext(t.Context(), "unshare", append([]string{"--net", "sh", "-c", script, "sh"}, files...)...).CombinedOutput()
	if err != nil || strings.Count(string(out), "== ") != len(files) {
		t.Fatalf("%v:\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "== ") {
			t.Errorf("keepalived says: %s", line)
		}
	}
}

func TestKeepalivedRefusesAFileThatIsNotOne(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.conf")
	if err := os.WriteFile(bad, []byte("vrrp_instance x {\n interface eth0\n priority 4000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "/usr/sbin/keepalived", "-t", "-f", bad).CombinedOutput(); err == nil {
		t.Errorf("accepted: %s", out)
	}
}

// An address's label has at most 15 characters, and "<nic>:vip" was longer.
func TestB21_NoLabelIsSet(t *testing.T) {
	v := hostView("v4", 3, 11)
	v.Addresses[0].Interface = "br-very-long-15"
	got, err := Render(HostOf(vrrp.Instances(v), v.Settings))
	if err != nil || strings.Contains(string(got), "label") || !strings.Contains(string(got), "10.98.0.5/32 dev br-very-long-15\n") {
		t.Errorf("%v:\n%s", err, got)
	}
}

func TestB22_TheBootstrappingHostPreempts(t *testing.T) {
	v := hosts()["bootstrap-v4"]
	if got, err := Render(HostOf(vrrp.Instances(v), v.Settings)); err != nil || strings.Contains(string(got), "nopreempt") {
		t.Errorf("%v:\n%s", err, got)
	}
}

func TestPodMatchesTheApprovedFile(t *testing.T) {
	got, err := Pod("release.example/keepalived:v1")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "pod.yaml", got)
}
