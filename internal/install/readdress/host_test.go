package readdress

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func a(text string) netip.Addr { return netip.MustParseAddr(text) }

// move is that of a site of two with both families.
func move(t *testing.T) decide.Plan {
	t.Helper()
	p := decide.Plan{
		ID: "m", At: time.Unix(1, 0),
		From: decide.Place{
			MachineNetworks: []string{"10.98.0.0/24", "fd98::/64"}, APIVIPs: []string{"10.98.0.5", "fd98::5"}, IngressVIPs: []string{"10.98.0.6", "fd98::6"}, RendezvousIP: "10.98.0.11",
			Hosts: map[string][]netip.Addr{"cp-1": {a("10.98.0.11"), a("fd98::11")}, "cp-2": {a("10.98.0.12"), a("fd98::12")}},
			BMCs:  map[string]string{"cp-2": "https://10.99.0.112/redfish/v1/Systems/1"},
		},
		To: decide.Place{
			MachineNetworks: []string{"10.77.0.0/24", "fd77::/64"}, APIVIPs: []string{"10.77.0.5", "fd77::5"}, IngressVIPs: []string{"10.77.0.6", "fd77::6"}, RendezvousIP: "10.77.0.12",
			// the hosts swap the last numbers of their addresses
			Hosts: map[string][]netip.Addr{"cp-1": {a("10.77.0.12"), a("fd77::12")}, "cp-2": {a("10.77.0.11"), a("fd77::11")}},
			BMCs:  map[string]string{"cp-2": "https://10.66.0.112/redfish/v1/Systems/1"},
		},
	}
	if bad := p.Check(); len(bad) > 0 {
		t.Fatal(bad)
	}
	return p
}

// machine is cp-1 of such a site, in a folder. A test can cut its power at any write.
type machine struct {
	powercut.Cut
	*Host
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{}
	m.Host = &Host{
		Root: t.TempDir(), Name: func() string { return "cp-1" }, Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
		Write: func(path string, data []byte, mode fs.FileMode, _, _ int) error {
			return m.Effect(func() error { return powercut.WriteFile(path, data, mode) })
		},
		Remove: func(path string) error { return m.Effect(func() error { return os.RemoveAll(path) }) },
	}
	s := sitetest.New(t, sitetest.TwoDual+"rendezvousIP: 10.98.0.11\n")
	id := s.Identity
	kept, err := s.For(state.RoleBootstrap).Settled().Marshal()
	must(t, err)
	put := func(path, data string) { must(t, powercut.WriteFile(m.at(path), []byte(data), 0o600)) }
	put(site.Path, string(kept))
	put(keptDir+site.Path, string(kept))
	for _, f := range []string{"apiserver", "etcd/server", "etcd/peer"} {
		cert, err := keys.Reissue(id.Admin.Cert, id.Admin.Key, id.KubernetesCA.Cert, id.KubernetesCA.Key, []netip.Addr{a("127.0.0.1"), a("10.98.0.11")}, time.Hour, m.Now())
		must(t, err)
		put(pki+f+".crt", cert)
		put(pki+f+".key", id.Admin.Key)
	}
	for _, dir := range []string{"", "etcd/"} {
		put(pki+dir+"ca.crt", id.KubernetesCA.Cert)
		put(pki+dir+"ca.key", id.KubernetesCA.Key)
	}
	put("/etc/hosts", "127.0.0.1 localhost\n10.98.0.11 cp-1 # mine\n10.98.0.5 "+s.APIName()+"\n")
	put("/etc/kubernetes/manifests/kube-apiserver.yaml", "- --advertise-address=10.98.0.11\n  host: 10.98.0.11\n  image: x/kube-apiserver:v1.36.3\n")
	put("/etc/kubernetes/kubelet.conf", "server: https://10.98.0.11:6443\n")
	put("/etc/corosync/corosync.conf", "ring0_addr: 10.98.0.11\nring0_addr: 10.98.0.12\n")
	put(keptDir+"/etc/corosync/corosync.conf", "ring0_addr: 10.98.0.11\nring0_addr: 10.98.0.12\n")
	put(state.EtcdPodManifest, "- --initial-cluster=cp-1=https://10.98.0.11:2380,cp-2=https://10.98.0.12:2380\n")
	put("/var/lib/holdfast/network/settings.json", "{}")
	put(state.NodesPath, `[{"Name":"cp-1","Addresses":["10.98.0.11","fd98::11"]},{"Name":"cp-2","Addresses":["10.98.0.12","fd98::12"]}]`)
	put(state.FencingDir+"/cp-2.json", `{"target":"cp-2","address":"https://10.99.0.112/redfish/v1/Systems/1","username":"u","password":"hush"}`)
	put(cib, `<nvpair name="node_ip_map" value="cp-1:10.98.0.11;cp-2:10.98.0.12"/>`)
	put(cib+".sig", "digest")
	put("/etc/motd", "10.98.0.11 is mine\n")
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files returns all files of the machine without the copies. Of a certificate it returns the
// addresses, of site.json those of the configuration.
func (m *machine) files(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(m.Root, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, m.Root)
		if err != nil || e.IsDir() || strings.HasPrefix(name, copies) || strings.HasSuffix(name, ".key") || strings.HasSuffix(name, "/ca.crt") {
			return err
		}
		data, err := os.ReadFile(path)
		must(t, err)
		out[name] = string(data)
		switch {
		case strings.HasSuffix(name, ".crt"):
			list, err := keys.Addresses(string(data))
			must(t, err)
			var texts []string
			for _, a := range list {
				texts = append(texts, a.String())
			}
			slices.Sort(texts)
			out[name] = strings.Join(texts, " ")
		case strings.HasSuffix(name, "site.json"):
			s, err := site.Unmarshal(data)
			must(t, err)
			p := decide.PlaceOf(s.Config, nil)
			out[name] = strings.Join(slices.Concat(p.MachineNetworks, p.APIVIPs, p.IngressVIPs, []string{p.RendezvousIP}), " ")
		}
		return nil
	}))
	return out
}

// TestTheFilesOfAHostGetTheOtherAddressesWhateverCutsThePower: and again those that they had.
func TestTheFilesOfAHostGetTheOtherAddressesWhateverCutsThePower(t *testing.T) {
	p := move(t)
	own := decide.Announced(p.From.Hosts["cp-1"])
	whole := newMachine(t)
	before := whole.files(t)
	must(t, whole.Keep())
	begin := whole.Effects
	must(t, whole.Move(p, decide.To, own))
	want := whole.files(t)
	if diff := cmp.Diff(map[string]string{
		"/etc/hosts": "127.0.0.1 localhost\n10.98.0.11 cp-1 # mine\n10.77.0.5 api-int.shop.example.test\n",
		"/etc/motd":  "10.98.0.11 is mine\n",
		"/etc/kubernetes/manifests/kube-apiserver.yaml": "- --advertise-address=10.77.0.12\n  host: 10.77.0.12\n  image: x/kube-apiserver:v1.36.3\n",
		"/etc/kubernetes/kubelet.conf":                  "server: https://10.77.0.12:6443\n",
		"/etc/corosync/corosync.conf":                   "ring0_addr: 10.77.0.12\nring0_addr: 10.77.0.11\n",
		keptDir + "/etc/corosync/corosync.conf":         "ring0_addr: 10.77.0.12\nring0_addr: 10.77.0.11\n",
		state.EtcdPodManifest:                           "- --initial-cluster=cp-1=https://10.77.0.12:2380,cp-2=https://10.77.0.11:2380\n",
		state.NodesPath:                                 `[{"Name":"cp-1","Addresses":["10.77.0.12","fd77::12"]},{"Name":"cp-2","Addresses":["10.77.0.11","fd77::11"]}]`,
		state.FencingDir + "/cp-2.json":                 "{\n  \"target\": \"cp-2\",\n  \"address\": \"https://10.66.0.112/redfish/v1/Systems/1\",\n  \"username\": \"u\",\n  \"password\": \"hush\"\n}\n",
		cib:                                             `<nvpair name="node_ip_map" value="cp-1:10.77.0.12;cp-2:10.77.0.11"/>`,
		site.Path:                                       "10.77.0.0/24 fd77::/64 10.77.0.5 fd77::5 10.77.0.6 fd77::6 10.77.0.12",
		keptDir + site.Path:                             "10.77.0.0/24 fd77::/64 10.77.0.5 fd77::5 10.77.0.6 fd77::6 10.77.0.12",
		pki + "apiserver.crt":                           "10.77.0.12 10.77.0.5 10.98.0.11 127.0.0.1 fd77::12 fd77::5",
		pki + "etcd/server.crt":                         "10.77.0.12 10.98.0.11 127.0.0.1 fd77::12",
		pki + "etcd/peer.crt":                           "10.77.0.12 10.98.0.11 127.0.0.1 fd77::12",
	}, want); diff != "" {
		t.Fatal(diff)
	}
	for at := 1; at <= whole.Effects; at++ {
		for _, after := range []bool{false, true} {
			m := newMachine(t)
			m.At, m.After = at, after
			err := m.Keep()
			if err == nil {
				err = m.Move(p, decide.To, own)
			}
			if !errors.Is(err, powercut.Err) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			m.Cut = powercut.Cut{}
			if at <= begin {
				if diff := cmp.Diff(before, m.files(t)); diff != "" {
					t.Errorf("cut at %d, while copies are made, it changed %s", at, diff)
				}
				must(t, m.Keep()) // the journal does not say yet that the move has begun
			}
			// Pacemaker starts at the boot, and puts a configuration with another digest aside
			left := m.files(t)
			if _, digest := left[cib+".sig"]; digest && left[cib] != before[cib] {
				t.Errorf("cut at %d: Pacemaker refuses its configuration, whose digest is another one", at)
			}
			must(t, os.Remove(m.at(cib)))
			must(t, m.Move(p, decide.To, own))
			if diff := cmp.Diff(want, m.files(t)); diff != "" {
				t.Errorf("cut at %d: %s", at, diff)
			}
		}
	}
}

func without(all map[string]string, names ...string) map[string]string {
	for _, n := range names {
		delete(all, n)
	}
	return all
}

func TestAHostThatIsCarriedBackHasWhatItHad(t *testing.T) {
	p := move(t)
	m := newMachine(t)
	before := m.files(t)
	must(t, m.Keep())
	must(t, m.Move(p, decide.To, decide.Journal{}))
	must(t, m.Keep())
	must(t, m.Move(p, decide.From, decide.Journal{}))
	must(t, m.Trim(p, decide.From, decide.Journal{}))
	got := m.files(t)
	for _, list := range []map[string]string{before, got} {
		// they get the virtual IPs by the move, and keep them; a device is written in our own form; settings come from the API
		without(list, pki+"apiserver.crt", state.FencingDir+"/cp-2.json", "/var/lib/holdfast/network/settings.json", cib+".sig")
	}
	for _, c := range []string{"etcd/server.crt", "etcd/peer.crt"} {
		before[pki+c] = "10.98.0.11 127.0.0.1 fd98::11"
	}
	if diff := cmp.Diff(before, got); diff != "" {
		t.Error(diff)
	}
}

func TestAfterTheMoveNoCertificateHasTheOldAddresses(t *testing.T) {
	p := move(t)
	m := newMachine(t)
	must(t, m.Keep())
	must(t, m.Move(p, decide.To, decide.Journal{}))
	must(t, m.Trim(p, decide.To, decide.Journal{}))
	must(t, m.Forget())
	got := m.files(t)
	for file, want := range map[string]string{
		"apiserver": "10.77.0.12 10.77.0.5 127.0.0.1 fd77::12 fd77::5", "etcd/server": "10.77.0.12 127.0.0.1 fd77::12", "etcd/peer": "10.77.0.12 127.0.0.1 fd77::12",
	} {
		if got[pki+file+".crt"] != want {
			t.Errorf("%s has %s", file, got[pki+file+".crt"])
		}
	}
	if _, err := os.Stat(m.at(copies)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copies of the old files, with keys among them, are still there: %v", err)
	}
}

// TestAHostSaysWhichFileAMoveLacksBeforeItMoves: people take keys that sign off a host.
func TestAHostSaysWhichFileAMoveLacksBeforeItMoves(t *testing.T) {
	p := move(t)
	own := decide.Announced(p.From.Hosts["cp-1"])
	m := newMachine(t)
	before := m.files(t)
	if err := m.Able(p, decide.To, own); err != nil || m.Effects > 0 {
		t.Fatalf("%v, and %d writes", err, m.Effects)
	}
	if diff := cmp.Diff(before, m.files(t)); diff != "" {
		t.Errorf("a look changed %s", diff)
	}
	for _, c := range []struct {
		sentence, file string
		data           []byte // nil for none
	}{
		{"the key of the cluster's authority is away", "ca.key", nil},
		{"the key of etcd's authority is away", "etcd/ca.key", nil},
		{"the key of a certificate is away", "etcd/peer.key", nil},
		{"the key of an authority is empty", "ca.key", []byte{}},
		{"the key is not that of the authority", "ca.key", read(t, m.at(pki+"apiserver.key"))},
	} {
		m := newMachine(t)
		must(t, os.Remove(m.at(pki+c.file)))
		if c.data != nil {
			must(t, powercut.WriteFile(m.at(pki+c.file), c.data, 0o600))
		}
		err := m.Able(p, decide.To, own)
		if err == nil || !strings.Contains(err.Error(), ".crt for other addresses") || c.data == nil && !strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: %v", c.sentence, err)
		}
		unlisted := p
		unlisted.To.Hosts = nil // it takes the address that it gets there
		if err := m.Able(unlisted, decide.To, own); err == nil {
			t.Errorf("%s, and the new address is not known: it can move", c.sentence)
		}
	}
	// A certificate that has the addresses of both places needs no key: such a host can always be
	// carried back.
	must(t, m.Keep())
	must(t, m.Move(p, decide.To, own))
	for _, key := range []string{"ca.key", "etcd/ca.key"} {
		must(t, os.Remove(m.at(pki+key)))
	}
	for _, f := range []string{"apiserver", "etcd/server", "etcd/peer"} {
		have, err := keys.Addresses(string(read(t, m.at(pki+f+".crt"))))
		if must(t, err); !slices.Contains(have, a("10.98.0.11")) {
			t.Fatalf("%s: %v", f, have)
		}
	}
	p.From.APIVIPs, own = nil, decide.Announced([]netip.Addr{a("10.98.0.11")}) // the ones that the certificates have
	if err := m.Able(p, decide.From, own); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}
