package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

var now = time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)

const secret = "hunter2-must-not-be-seen"

// certificate returns a certificate with the given end, in PEM.
func certificate(t *testing.T, ends time.Time, authority bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: ends.Add(-time.Hour), NotAfter: ends,
		IsCA: authority, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// fakeHost simulates one of two hosts after the setup.
type fakeHost struct {
	root  string
	units map[string]string
	tools map[string]string
	names map[string][]string
	pages map[string]string
	net   netwatch.Snapshot
	clock func() (bool, error)
	table bool
}

func newFakeHost(t *testing.T) *fakeHost {
	t.Helper()
	f := &fakeHost{
		root: t.TempDir(), units: map[string]string{"chrony.service": "active"},
		names: map[string][]string{
			"api.one.site": {"10.98.0.5"}, "api-int.one.site": {"10.98.0.5"}, "holdfast-doctor.apps.one.site": {"10.98.0.6"},
		},
		clock: func() (bool, error) { return true, nil }, table: true,
	}
	cib, err := os.ReadFile("../../decide/twonode/testdata/foreign.xml")
	if err != nil {
		t.Fatal(err)
	}
	f.tools = map[string]string{"cibadmin": string(cib)}
	f.pages = map[string]string{metricsURLs[0]: metrics}
	f.net = netwatch.Snapshot{
		Addresses: []state.HostAddress{{Interface: "br0", Prefix: netip.MustParsePrefix("10.98.0.11/24")}},
		Routes: []state.HostRoute{
			{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.98.0.1"), Interface: "br0", Metric: 5},
			{Destination: netip.MustParsePrefix("10.98.0.0/24"), Interface: "br0"},
			{Destination: netip.MustParsePrefix("10.99.0.0/24"), Interface: "bmc0"},
		},
	}
	f.write(t, "/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--hostname-override=cp-1 --node-ip=10.98.0.11,fd98::11 --node-labels=a=b\"\n")
	f.write(t, "/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1024 0 -2\n/dev/zram0 partition 4096 0 100\n/swap\\040file file 2048 0 -3\n")
	f.write(t, "/etc/containerd/certs.d/docker.io/hosts.toml", "server = \"https:secret")
	f.write(t, "/etc/containerd/certs.d/ghcr.io/hosts.toml", "[host.\"https://mirror.site\"]\n")
	f.write(t, "/etc/containerd/certs.d/quay.io/ca.crt", "of a registry without mirrors")
	f.write(t, "/etc/corosync/corosync.conf", corosyncText)
	f.write(t, "/sys/class/net/br0/mtu", "9000\n")
	f.write(t, "/sys/class/net/br0/lower_bond0", "")
	f.write(t, "/sys/class/net/br0/uevent", "DEVTYPE=bridge\n")
	f.write(t, "/sys/class/net/bond0/uevent", "DEVTYPE=bond\n")
	f.write(t, "/sys/class/net/bond0/lower_eno1", "")
	f.write(t, "/sys/class/net/bond0/master", "")
	f.write(t, "/sys/class/net/eno1/uevent", "INTERFACE=eno1\n")
	f.write(t, "/sys/class/net/eno1/device", "")
	f.write(t, "/sys/class/net/eno1/master", "")
	f.write(t, "/proc/sys/net/ipv4/conf/all/arp_ignore", "0\n")
	f.write(t, "/proc/sys/net/ipv6/conf/br0/accept_ra", "1\n")
	f.write(t, "/sys/class/net/bond0/bonding/slaves", "eno1 eno2\n")
	f.write(t, "/etc/holdfast/fencing/cp-2.json", `{"target":"cp-2","address":"redfish://10.99.0.2/redfish/v1/Systems/1","username":"`+secret+`","password":"`+secret+`","delay":20000000000}`)
	f.write(t, "/etc/holdfast/fencing/cp-1.json", `{"target":"cp-1","address":"10.99.0.1","username":"u","password":"`+secret+`"}`)
	f.write(t, "/var/lib/holdfast/fencing/history.jsonl", history)
	f.write(t, "/etc/kubernetes/pki/ca.crt", certificate(t, now.Add(1000*time.Hour), true))
	f.write(t, "/etc/kubernetes/pki/etcd/peer.crt", certificate(t, now.Add(50*time.Hour), false))
	f.write(t, "/etc/kubernetes/pki/ca.key", secret)
	f.write(t, "/etc/kubernetes/pki/etcd/ca.key", secret)
	f.write(t, "/etc/kubernetes/pki/holdfast-agent.pem", certificate(t, now.Add(70*time.Hour), false))
	f.write(t, "/etc/kubernetes/admin.conf", kubeconfig(certificate(t, now.Add(60*time.Hour), false)))
	f.write(t, "/etc/kubernetes/kubelet.conf", "apiVersion: v1\nkind: Config\nusers: [{name: u, user: {client-certificate: /x.pem}}]\n")
	return f
}

func kubeconfig(certificate string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\nusers:\n- name: admin\n  user:\n    client-certificate-data: %s\n    client-key-data: %s\n",
		base64.StdEncoding.EncodeToString([]byte(certificate)), base64.StdEncoding.EncodeToString([]byte(secret)))
}

const corosyncText = `totem { 
  version: 2
}
nodelist {
  node {
    ring0_addr: 10.98.0.11
    ring1_addr: 10.97.0.11
    name: cp-1
  }
  node {
    ring0_addr: 10.98.0.12
    name: cp-2
  }
}
`

// history contains a fence that cut the power, one that found it cut, one that
// failed, and a line that a power cut left incomplete.
const history = `{"time":"2026-10-01T00:00:00Z","target":"cp-2","by":"cp-1","off":true,"requests":1,"phases":{"identify":1000000000,"hold":9000000000,"powerOff":2000000000,"evidence":1000000,"total":12001000000}}
{"time":"2026-10-02T00:00:00Z","target":"cp-2","by":"cp-1","off":true,"requests":0,"phases":{"identify":30000000000,"total":30000000000}}
{"time":"2026-10-03T00:00:00Z","target":"cp-2","by":"cp-1","off":false,"requests":2,"phases":{"identify":1,"powerOff":60000000000,"total":60000000000}}
{"ti`

// metrics contains lines of etcd's metrics.
const metrics = `# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 900
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 980
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.004"} 1000
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 1000
etcd_disk_wal_fsync_duration_seconds_sum 0.7
etcd_mvcc_db_total_size_in_bytes 2.097152e+07
etcd_mvcc_db_total_size_in_use_in_bytes 1.048576e+07
etcd_server_quota_backend_bytes 2.147483648e+09
`

func (f *fakeHost) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fakeHost) run(_ context.Context, c host.Cmd) ([]byte, error) {
	if c.Name == "systemctl" && f.units != nil {
		var out strings.Builder
		for _, unit := range c.Args[1:] {
			state := f.units[unit]
			if state == "" {
				state = "inactive"
			}
			out.WriteString(state + "\n")
		}
		return []byte(out.String()), errors.New("exit status 3") // like systemctl
	}
	if text, ok := f.tools[c.Name]; ok {
		return []byte(text), nil
	}
	return nil, errors.New(c.Name + " is not there")
}

func (f *fakeHost) eyes() Observer {
	return Observer{
		Root: f.root, Now: func() time.Time { return now }, Name: func() (string, error) { return "cp-1", nil }, Called: func() (string, error) { return "cp-1.site", nil },
		Site: state.Known(Site{Settings: state.NetworkSettings{
			Domain: "one.site", ManagedVIPs: true, ControlPlanes: 2, Fencing: true,
			APIVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.5")}, IngressVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.6")},
		}}),
		DataDir: "/var/lib/etcd", Run: f.run, Kernel: f.clock,
		Space: func(string) (uint64, uint64, error) { return 1 << 30, 20 << 30, nil },
		Table: func() (bool, error) { return f.table, nil },
		Firewalls: func(context.Context, ports.Kind, ports.Place) ([]state.SiteFirewall, error) {
			return []state.SiteFirewall{{Name: "ufw", Cluster: []string{"5405/udp"}}}, nil
		},
		Network: func() (netwatch.Snapshot, error) { return f.net, nil },
		Resolve: func(_ context.Context, name string) ([]string, error) {
			if list, ok := f.names[name]; ok {
				return list, nil
			}
			return nil, errors.New("no such host")
		},
		Get: func(_ context.Context, url string) ([]byte, error) {
			if page, ok := f.pages[url]; ok {
				return []byte(page), nil
			}
			return nil, errors.New("connection refused")
		},
		BMC: func(_ context.Context, at bmc.Address) (redfish.Shown, error) {
			if at.Host != "10.99.0.2" {
				return redfish.Shown{}, errors.New("no answer")
			}
			return redfish.Shown{ShownCertificate: redfish.ShownCertificate{Ends: now.Add(time.Hour), Fingerprint: "ab12"}, Clock: now.Add(time.Minute), Asked: now, Answered: now.Add(time.Second)}, nil
		},
	}
}

func TestAHostOfTwoSaysWhatItIsLike(t *testing.T) {
	f := newFakeHost(t)
	f.tools["lldpctl"] = `{"lldp":[{"interface":[{"name":"eno1","chassis":[{"id":[{"type":"mac","value":"00:11"}],"name":[{"value":"sw-a"}]}]},` +
		`{"name":"eno2","chassis":[{"id":[{"type":"mac","value":"00:22"}]}]},{"name":"bmc0","chassis":[{"name":[{"value":"sw-a"}]}]}]}]}`
	got := f.eyes().Observe(t.Context())
	want := decide.Host{
		Name: "cp-1", From: now, To: now,
		Topology: state.Known(decide.Topology{ControlPlanes: 2, Fencing: true}),
		Clock:    state.Known(decide.Clock{Synchronised: true, Service: "chrony"}),
		Called:   state.Known("cp-1.site"), Addresses: state.Known([]decide.OwnAddress{{Address: "10.98.0.11", Interface: "br0"}, {Address: "fd98::11"}}),
		Swap: state.Known[uint64](3 << 20), Rebooters: state.Known([]string{}), Watchdogs: state.Known([]string{}),
		Rings: state.Known([]decide.Ring{
			{Address: "10.98.0.11", Interface: "br0", Subnet: "10.98.0.0/24", MTU: 9000, Bond: 2, Switches: []string{"00:22", "sw-a"}},
			{Address: "10.97.0.11"},
		}),
		RingLacks: state.Known("crypto_cipher"),
		BMCs: state.Known([]decide.BMC{{
			Target: "cp-2", Address: "10.99.0.2", Delay: 20 * time.Second, Verified: true, Interface: "bmc0", Switches: []string{"sw-a"},
			Shows:  state.Known(decide.Shown{Fingerprint: "ab12", Ends: now.Add(time.Hour), Offset: state.Known(decide.Offset{Low: 59 * time.Second, High: 61 * time.Second})}),
			Proven: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Slowest: 3001 * time.Millisecond,
		}}),
		Etcd: state.Known(decide.Etcd{Size: 20 << 20, InUse: 10 << 20, Quota: 2 << 30, Disk: 20 << 30, FsyncP99: 3 * time.Millisecond, Writes: 1000}),
		Certificates: state.Known([]decide.Certificate{
			{Path: "/etc/kubernetes/pki/ca.crt", Begins: now.Add(999 * time.Hour), Ends: now.Add(1000 * time.Hour), Authority: true},
			{Path: "/etc/kubernetes/pki/etcd/peer.crt", Begins: now.Add(49 * time.Hour), Ends: now.Add(50 * time.Hour)},
			{Path: "/etc/kubernetes/pki/holdfast-agent.pem", Begins: now.Add(69 * time.Hour), Ends: now.Add(70 * time.Hour)},
			{Path: "/etc/kubernetes/admin.conf", Begins: now.Add(59 * time.Hour), Ends: now.Add(60 * time.Hour)},
		}),
		Firewall: state.Known(decide.Firewall{Ours: true, Site: []state.SiteFirewall{{Name: "ufw", Cluster: []string{"5405/udp"}}}}),
		Names: state.Known([]decide.Name{
			{Name: "api.one.site", Addresses: []string{"10.98.0.5"}, Want: []string{"10.98.0.5"}},
			{Name: "api-int.one.site", Addresses: []string{"10.98.0.5"}, Want: []string{"10.98.0.5"}},
			{Name: "holdfast-doctor.apps.one.site", Addresses: []string{"10.98.0.6"}, Want: []string{"10.98.0.6"}},
		}),
	}
	want.Mirrors = state.Known([]decide.Mirror{{Path: "/etc/containerd/certs.d/docker.io/hosts.toml", Why: "line 1, column 22: cannot be read as TOML: something is written wrong, or stands there twice"}})
	want.NICs = state.Known(decide.NICs{Uplinks: []string{"br0"}, LooseARP: true, Deaf: []string{"br0"}})
	for _, d := range got.Devices.Value {
		if d.Ours != (d.Agent == "fence_holdfast") {
			t.Errorf("%+v", d)
		}
	}
	if !got.Devices.Known || len(got.Devices.Value) == 0 {
		t.Error("no devices")
	}
	got.Devices = state.Fact[[]decide.Device]{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABMCThatIsGoneProvesNothingAboutTheOneInItsPlace(t *testing.T) {
	f := newFakeHost(t)
	f.write(t, "/var/lib/holdfast/fencing/history.jsonl", `{"time":"2026-10-01T00:00:00Z","target":"cp-2","by":"cp-1","off":true,"requests":1,"bmc":"redfish://10.99.0.3/redfish/v1/Systems/1","phases":{"powerOff":2000000000}}`)
	if got := f.eyes().Observe(t.Context()).BMCs.Value; len(got) != 1 || !got[0].Proven.IsZero() || got[0].Slowest != 0 {
		t.Errorf("%+v", got)
	}
}

// docs/facts/life.md#certificates, L-C23 and L-C25.
func TestAHostSaysWhichCertificatesItCannotRenewAndHowManyAFileHas(t *testing.T) {
	f := newFakeHost(t)
	f.write(t, "/etc/kubernetes/pki/ca.crt", certificate(t, now.Add(1000*time.Hour), true)+"# and\n"+certificate(t, now, true))
	if err := os.Remove(f.root + "/etc/kubernetes/pki/etcd/ca.key"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range f.eyes().Observe(t.Context()).Certificates.Value {
		got[filepath.Base(c.Path)] = fmt.Sprint(c.Lacks, " ", c.Others)
	}
	want := map[string]string{"ca.crt": " 1", "peer.crt": "/etc/kubernetes/pki/etcd/ca.key 0", "holdfast-agent.pem": " 0", "admin.conf": " 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The authority of the configuration server has no file of its own, and nobody renews
// it.
func TestTheAuthorityOfTheConfigurationServerIsAmongTheCertificates(t *testing.T) {
	f := newFakeHost(t)
	site := func(text any) string {
		data, err := json.Marshal(map[string]any{"identity": map[string]any{"configCA": map[string]any{"cert": text, "key": secret}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	ends := now.Add(1000 * time.Hour).Truncate(time.Second)
	f.write(t, "/etc/holdfast/site.json", site(certificate(t, ends, true)))
	found := false
	for _, c := range f.eyes().Observe(t.Context()).Certificates.Value {
		found = found || strings.HasPrefix(c.Path, "/etc/holdfast/site.json (") && c.Ends.Equal(ends) && c.Authority
	}
	if !found {
		t.Error("it is not told")
	}
	f.write(t, "/etc/holdfast/site.json", site(secret)+secret)
	h := f.eyes().Observe(t.Context())
	if text := fmt.Sprint(h.Trouble); h.Certificates.Known || !strings.Contains(text, "site.json") || strings.Contains(text, secret) {
		t.Errorf("a damaged file: %+v %s", h.Certificates, text)
	}
}

func TestWhatAHostSaysHoldsNoSecret(t *testing.T) {
	f := newFakeHost(t)
	f.write(t, "/etc/kubernetes/broken.conf", "users: [{client-key-data: "+secret)
	f.write(t, "/etc/holdfast/fencing/cp-3.json", `{"target":"cp-3","password":"`+secret+`"`)
	text, err := json.Marshal(f.eyes().Observe(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
		if strings.Contains(string(text), form) {
			t.Errorf("%s is in %s", form, text)
		}
	}
	if !strings.Contains(string(text), "broken.conf") || !strings.Contains(string(text), "cp-3") {
		t.Errorf("nothing is said of the files that are broken: %s", text)
	}
}

func TestWhatCannotBeReadIsUnknownAndSaysWhy(t *testing.T) {
	f := newFakeHost(t)
	f.root, f.units, f.tools, f.pages, f.names = t.TempDir(), nil, nil, nil, nil
	f.clock = func() (bool, error) { return false, errors.New("not permitted") }
	e := f.eyes()
	e.Called = func() (string, error) { return "", errors.New("no name") }
	e.Network = func() (netwatch.Snapshot, error) { return netwatch.Snapshot{}, errors.New("no netlink") }
	e.Disk = true
	h := e.Observe(t.Context())
	if h.Called.Known || h.Addresses.Known || h.Clock.Known || h.Swap.Known || h.Rebooters.Known || h.Watchdogs.Known || h.Rings.Known || h.Devices.Known || h.Etcd.Known || h.Certificates.Known || h.Disk.Known || h.NICs.Known {
		t.Errorf("%+v", h)
	}
	if !h.BMCs.Known || len(h.BMCs.Value) != 0 {
		t.Errorf("a host without devices cannot fence, and that is known: %+v", h.BMCs)
	}
	for _, n := range h.Names.Value {
		if n.Problem == "" {
			t.Errorf("%+v", n)
		}
	}
	for _, want := range []string{"clock: not permitted", "network: no netlink", "units: systemctl", "metrics of etcd: connection refused", "disk: measure the disk"} {
		if !strings.Contains(strings.Join(h.Trouble, "\n"), want) {
			t.Errorf("%q is not in %q", want, h.Trouble)
		}
	}
	f.tools = map[string]string{"systemctl": "active\n"}
	if text := strings.Join(f.eyes().Observe(t.Context()).Trouble, "\n"); !strings.Contains(text, `it printed "active\n"`) || strings.Contains(text, "%!") {
		t.Errorf("half of an answer: %q", text)
	}
}

func TestTheTroubleWithABMCDoesNotSayWhereItIs(t *testing.T) {
	f := newFakeHost(t)
	e := f.eyes()
	e.BMC = func(context.Context, bmc.Address) (redfish.Shown, error) {
		return redfish.Shown{}, &redfish.Error{Op: "look", Host: "https://10.99.0.2", Reason: redfish.Unreachable}
	}
	h := e.Observe(t.Context())
	if text := strings.Join(h.Trouble, "\n"); !strings.Contains(text, "BMC of cp-2: unreachable") || strings.Contains(text, "10.99") {
		t.Errorf("%s", text)
	}
	if h.BMCs.Value[0].Shows.Known || h.BMCs.Value[0].Address == "" {
		t.Errorf("the rest of it is known: %+v", h.BMCs)
	}
}

func TestAHostThatFencesNobodyIsNotAskedForWhatItHasNot(t *testing.T) {
	f := newFakeHost(t)
	e := f.eyes()
	e.Site.Value.Settings.Fencing = false
	e.Run = func(ctx context.Context, c host.Cmd) ([]byte, error) {
		if c.Name != "systemctl" {
			t.Errorf("%s was run", c)
		}
		return f.run(ctx, c)
	}
	if h := e.Observe(t.Context()); h.Rings.Known || h.BMCs.Known || len(h.Trouble) != 0 {
		t.Errorf("%+v", h)
	}
}

func TestWhatMayRebootAHostIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		units, files map[string]string
		want         []string
	}{
		"unattended-upgrades with automatic reboot": {
			map[string]string{"apt-daily-upgrade.timer": "active"},
			map[string]string{"/usr/bin/unattended-upgrade": "", "/etc/apt/apt.conf.d/50unattended-upgrades": "// Unattended-Upgrade::Automatic-Reboot \"false\";\nUnattended-Upgrade::Automatic-Reboot \"true\";\n"},
			[]string{"unattended-upgrades reboots the host after updates (/etc/apt/apt.conf.d/50unattended-upgrades)"},
		},
		"a later file overrules": {
			map[string]string{"apt-daily-upgrade.timer": "active"},
			map[string]string{"/usr/bin/unattended-upgrade": "", "/etc/apt/apt.conf.d/50u": `Unattended-Upgrade::Automatic-Reboot "true";`, "/etc/apt/apt.conf.d/99u": `Unattended-Upgrade::Automatic-Reboot "false";`},
			[]string{},
		},
		"what is commented out does not count": {
			map[string]string{"apt-daily-upgrade.timer": "active"},
			map[string]string{"/usr/bin/unattended-upgrade": "", "/etc/apt/apt.conf.d/50u": `//Unattended-Upgrade::Automatic-Reboot "true";`},
			[]string{},
		},
		"a timer that does not run reboots nothing": {
			nil,
			map[string]string{"/usr/bin/unattended-upgrade": "", "/etc/apt/apt.conf.d/50u": `Unattended-Upgrade::Automatic-Reboot "true";`},
			[]string{},
		},
		"unattended-upgrades that is not installed": {
			map[string]string{"apt-daily-upgrade.timer": "active"},
			map[string]string{"/etc/apt/apt.conf.d/50u": `Unattended-Upgrade::Automatic-Reboot "true";`},
			[]string{},
		},
		"dnf-automatic": {
			map[string]string{"dnf-automatic.timer": "active"},
			map[string]string{"/etc/dnf/automatic.conf": "[commands]\n# reboot = never\nreboot = when-needed\n"},
			[]string{"dnf-automatic.timer reboots the host after updates (/etc/dnf/automatic.conf)"},
		},
		"dnf-automatic that never does": {
			map[string]string{"dnf-automatic.timer": "active"}, map[string]string{"/etc/dnf/automatic.conf": "reboot = never\n"}, []string{},
		},
		"an updating operating system": {
			map[string]string{"zincati.service": "active"}, nil, []string{"zincati.service is running: it reboots into updates"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeHost(t)
			f.units = c.units
			if f.units == nil {
				f.units = map[string]string{}
			}
			for path, text := range c.files {
				f.write(t, path, text)
			}
			h := f.eyes().Observe(t.Context())
			if diff := cmp.Diff(state.Known(c.want), h.Rebooters); diff != "" {
				t.Errorf("%s\n%q", diff, h.Trouble)
			}
		})
	}
}

func TestAWatchdogThatRunsIsFound(t *testing.T) {
	f := newFakeHost(t)
	f.units = map[string]string{"sbd.service": "active", "watchdog.service": "failed"}
	if h := f.eyes().Observe(t.Context()); len(h.Watchdogs.Value) != 1 || !strings.HasPrefix(h.Watchdogs.Value[0], "sbd.service is running") {
		t.Errorf("%+v", h.Watchdogs)
	}
}
