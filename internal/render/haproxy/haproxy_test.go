package haproxy

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// topologies returns views of sites, one for each golden file.
func topologies() map[string]state.NetworkView {
	v4 := []string{"10.98.0.11", "10.98.0.12", "10.98.0.13"}
	v6 := []string{"fd98::11", "fd98::12", "fd98::13"}
	return map[string]state.NetworkView{
		"one-v4":   view(v4[:1], nil, "10.98.0.5"),
		"two-v4":   view(v4[:2], nil, "10.98.0.5"),
		"two-dual": view(v4[:2], v6[:2], "10.98.0.5", "fd98::5"),
		"three-v4": view(v4, nil, "10.98.0.5"), "three-v6": view(nil, v6, "fd98::5"),
		"three-dual": view(v4, v6, "10.98.0.5", "fd98::5"), "three-dual-v6-first": view(v4, v6, "fd98::5", "10.98.0.5"),
	}
}

func view(v4, v6 []string, vips ...string) state.NetworkView {
	v := state.NetworkView{Role: state.RoleMaster, Settings: state.NetworkSettings{Cluster: "shop", ManagedVIPs: true}}
	for _, a := range vips {
		v.Settings.APIVIPs = append(v.Settings.APIVIPs, netip.MustParseAddr(a))
	}
	v.Nodes.Known = true
	for i := range max(len(v4), len(v6)) {
		n := state.Node{Name: "cp-" + string(rune('1'+i)), Labels: map[string]string{state.LabelControlPlane: ""}}
		for _, list := range [][]string{v4, v6} {
			if i < len(list) {
				n.Addresses = append(n.Addresses, netip.MustParseAddr(list[i]))
			}
		}
		v.Nodes.Value = append(v.Nodes.Value, n)
	}
	v.Host = state.HostFacts{NodeName: "cp-1", Addresses: v.Nodes.Value[0].Addresses}
	return v
}

func site(v state.NetworkView, paths Paths) Site {
	_, v6 := apilb.Families(v)
	return Site{V6: v6, Backends: apilb.Backends(v).Value, CA: []byte("CA"), Paths: paths}
}

func TestGoldenConfigurations(t *testing.T) {
	for name, v := range topologies() {
		t.Run(name, func(t *testing.T) {
			out, err := Config(site(v, HostPaths))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name+".cfg", out)
		})
	}
	pod, err := Pod("registry.holdfast.local/haproxy:1", "")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "pod.yaml", pod)
}

// The golden files contain paths of a host; the files here differ only in
// those.
func TestHaproxyAcceptsEachGolden(t *testing.T) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed: run hack/setup")
	}
	goldens, err := filepath.Glob("testdata/*.cfg")
	if err != nil || len(goldens) != len(topologies()) {
		t.Fatalf("%d golden files for %d topologies: %v", len(goldens), len(topologies()), err)
	}
	ca, err := os.ReadFile("testdata/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range goldens {
		t.Run(path, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			conf := strings.NewReplacer(configDir, dir, runDir, dir).Replace(string(text))
			write(t, filepath.Join(dir, "ca.crt"), ca)
			write(t, filepath.Join(dir, "haproxy.cfg"), []byte(conf))
			out, err := exec.Command(program, "-c", "-f", filepath.Join(dir, "haproxy.cfg")).CombinedOutput()
			if err != nil || strings.Contains(string(out), "WARNING") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheFingerprintChangesWithAllButTheServers(t *testing.T) {
	base := site(topologies()["three-v4"], HostPaths)
	print := func(s Site) string {
		out, err := Fingerprint(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	fewer, family, ca := base, base, base
	fewer.Backends, family.V6, ca.CA = base.Backends[:1], true, []byte("another")
	if print(fewer) != print(base) {
		t.Error("a server less asks for a reload")
	}
	if print(family) == print(base) || print(ca) == print(base) {
		t.Error("another family or authority goes unnoticed")
	}
}

// B44, H11: nothing else on a host uses these ports, and data without a
// password is served to this host only.
func TestB44_H11_PortsAreApartAndStatisticsStayOnTheHost(t *testing.T) {
	out, err := Config(site(topologies()["three-dual"], HostPaths))
	if err != nil {
		t.Fatal(err)
	}
	var binds []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "bind" {
			binds = append(binds, f[1])
		}
	}
	want := ":9445 :::9445 :9444 :::9444 :9454 :::9454 127.0.0.1:29445"
	if got := strings.Join(binds, " "); got != want {
		t.Errorf("listens on %s, want %s", got, want)
	}
	if strings.Contains(string(out), "auth") || strings.Contains(string(out), "admin if") {
		t.Error("statistics have a password in a file, or can change things")
	}
}

// B45: half-open clients must not use up all connections.
func TestB45_HalfOpenClientsAreBounded(t *testing.T) {
	out, err := Config(site(topologies()["three-v4"], HostPaths))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"timeout client-fin 1s", "timeout server-fin 1s", "timeout client 1m", "timeout tunnel 5m", "maxconn 40000",
	} {
		if !strings.Contains(string(out), "    "+line+"\n") {
			t.Errorf("no %q", line)
		}
	}
}
