package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/config"
)

func TestEveryMistakeOfASpecIsReportedAtOnce(t *testing.T) {
	bad := Spec{Name: "No-Good", ControlPlanes: 4, Workers: 99, Families: []Family{V4, V4}, POSTDelay: -1, Platform: "cloud", FarWorkers: 100, FarIngress: true, RouterAdvertisements: true, EtcdDisk: "network"}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	want := `name: "No-Good": must be 1 to 16 characters of a-z and 0-9, starting with a letter
control planes: 4: must be 1, 2, 3 or 5
workers: 99: must be 0 to 20
families: [v4 v4]: must be v4, v6, or both in the wanted order
POST delay: -1ns: must not be negative
platform: "cloud": must be none or baremetal
far workers: 100: must be 0 to the number of workers, 99
far ingress: needs far workers, and hosts that hold virtual IPs
router advertisements: need the family v6
etcd disk: "network": must be memory or machine`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestPlatformFollowsFromTheNumberOfControlPlanes(t *testing.T) {
	for planes, want := range map[int]Platform{1: PlatformNone, 2: PlatformBareMetal, 3: PlatformBareMetal} {
		s := Spec{Name: "x", ControlPlanes: planes}.WithDefaults()
		if s.Platform != want || s.Validate() != nil {
			t.Errorf("%d control planes: platform %s (%v), want %s", planes, s.Platform, s.Validate(), want)
		}
	}
	if err := (Spec{Name: "x", ControlPlanes: 2, Platform: PlatformNone}).WithDefaults().Validate(); err == nil {
		t.Error("two control planes without anybody to hold their address were accepted")
	}
}

// layouts returns all kinds of sites that a lab can be.
func layouts() map[string]Layout {
	out := map[string]Layout{}
	for _, planes := range []int{1, 2, 3, 5} {
		for _, workers := range []int{0, 2} {
			for _, families := range []string{"v4", "v6", "v4,v6", "v6,v4"} {
				list, err := ParseFamilies(families)
				if err != nil {
					panic(err)
				}
				name := fmt.Sprintf("%d+%d %s", planes, workers, families)
				out[name] = NewLayout(Spec{Name: "site", ControlPlanes: planes, Workers: workers, Families: list}.WithDefaults())
				out[name+" odd"] = NewLayout(Spec{
					Name: "site", ControlPlanes: planes, Workers: workers, Families: list, SecondNIC: true, CertificateValidity: "12m", EtcdQuota: 3,
					FarWorkers: workers / 2, FarIngress: workers > 0 && planes > 1, RouterAdvertisements: slices.Contains(list, V6),
				}.WithDefaults())
			}
		}
	}
	return out
}

func TestAddressesOfALayoutAreThoseOfTheBrief(t *testing.T) {
	l := NewLayout(Spec{Name: "site", ControlPlanes: 2, Workers: 1, Families: []Family{V4, V6}}.WithDefaults())
	got := map[string]string{
		"gateway": fmt.Sprint(l.Machine.Gateways), "api": fmt.Sprint(l.APIVIPs), "ingress": fmt.Sprint(l.IngressVIPs),
	}
	for _, h := range l.Hosts {
		got[h.Name] = fmt.Sprintf("%s %v %v %v", h.Role, h.Machine.Addresses, h.Fencing.Addresses, h.BMC.Addresses)
	}
	want := map[string]string{
		"gateway": "[10.98.0.1 fd98::1]", "api": "[10.98.0.5 fd98::5]", "ingress": "[10.98.0.6 fd98::6]",
		"cp-1":     "bootstrap [10.98.0.11/24 fd98::11/64] [10.99.0.11/24 fd99::11/64] [10.99.0.111 fd99::111]",
		"cp-2":     "master [10.98.0.12/24 fd98::12/64] [10.99.0.12/24 fd99::12/64] [10.99.0.112 fd99::112]",
		"worker-1": "worker [10.98.0.31/24 fd98::31/64] [10.99.0.31/24 fd99::31/64] [10.99.0.131 fd99::131]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAddressesOfOddLayouts(t *testing.T) {
	l := NewLayout(Spec{
		Name: "site", ControlPlanes: 2, Workers: 2, SpareWorkers: 1, Families: []Family{V4, V6},
		FarWorkers: 1, FarIngress: true, RouterAdvertisements: true, SecondNIC: true,
	}.WithDefaults())
	got := map[string]string{"api": fmt.Sprint(l.APIVIPs), "ingress": fmt.Sprint(l.IngressVIPs), "routers": fmt.Sprint(l.routers())}
	for _, h := range l.Hosts {
		got[h.Name] = fmt.Sprintf("%v %v by %v", h.Machine.Addresses, h.Second.Addresses, l.networkOf(h).Gateways)
	}
	want := map[string]string{
		"api": "[10.98.0.5 fd98::5]", "ingress": "[10.97.0.6 fd97::6]",
		"routers":  "[{machine0 fd98::/64 1m0s 5s} {machine1 fd97::/64 1m0s 5s}]",
		"cp-1":     "[10.98.0.11/24 fd98::11/64] [10.98.0.111/24 fd98::111/64] by [10.98.0.1 fd98::1]",
		"cp-2":     "[10.98.0.12/24 fd98::12/64] [10.98.0.112/24 fd98::112/64] by [10.98.0.1 fd98::1]",
		"worker-1": "[10.98.0.31/24 fd98::31/64] [10.98.0.131/24 fd98::131/64] by [10.98.0.1 fd98::1]",
		"worker-2": "[10.97.0.32/24 fd97::32/64] [10.97.0.132/24 fd97::132/64] by [10.97.0.1 fd97::1]",
		"worker-3": "[10.98.0.33/24 fd98::33/64] [10.98.0.133/24 fd98::133/64] by [10.98.0.1 fd98::1]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoTwoHostsShareAnIdentityOrAnAddress(t *testing.T) {
	for name, l := range layouts() {
		t.Run(name, func(t *testing.T) {
			seen := map[string]string{}
			take := func(owner string, values ...string) {
				for _, v := range values {
					if other, taken := seen[v]; taken {
						t.Errorf("%s is both %s and %s", v, other, owner)
					}
					seen[v] = owner
				}
			}
			for _, n := range l.networks() {
				take("gateway", texts(n.Gateways)...)
			}
			take("api", texts(l.APIVIPs)...)
			take("ingress", texts(l.IngressVIPs)...)
			for _, h := range l.Hosts {
				take(h.Name, h.Namespace, h.UUID, h.Serial, h.Machine.MAC, h.Fencing.MAC, h.Machine.Port, h.Fencing.Port, h.BMC.Password)
				for _, nic := range h.nics() {
					take(h.Name, texts(nic.addrs())...)
				}
				if l.Spec.SecondNIC {
					take(h.Name, h.Second.MAC, h.Second.Port)
				}
				take(h.Name+" BMC", texts(h.BMC.Addresses)...)
			}
		})
	}
}

func TestAMachineThatTookAnothersPlaceHasItsNameAndNothingElseOfIt(t *testing.T) {
	spec := Spec{Name: "site", ControlPlanes: 5, Workers: maxWorkers, SecondNIC: true, Swaps: []Swap{{Host: "cp-2"}, {Host: "cp-5", NewAddress: true}, {Host: "cp-2", NewAddress: true}}}.WithDefaults()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	l := NewLayout(spec)
	got := map[string]string{}
	seen := map[string]string{}
	for _, h := range l.Hosts {
		for _, v := range append([]string{h.Namespace, h.UUID, h.Serial, h.Machine.MAC, h.Fencing.MAC, h.Second.MAC, h.Machine.Port, h.Fencing.Port, h.Second.Port, h.BMC.Password}, texts(h.BMC.Addresses)...) {
			if other, taken := seen[v]; taken {
				t.Errorf("%s is both %s and %s", v, other, h.Name)
			}
			seen[v] = h.Name
		}
		if h.ID != h.Name {
			got[h.Name] = fmt.Sprintf("%s %v %v %s spare=%v former=%v", h.ID, h.Machine.addrs(), h.BMC.Addresses, h.BMC.SystemID, h.Spare, h.Former)
		}
		for _, port := range []string{h.Machine.Port, h.Second.Port, delayDevice(h.Machine.Port)} {
			if len(port) > 15 {
				t.Errorf("%s is longer than 15 characters", port)
			}
		}
	}
	want := map[string]string{
		"cp-2":      "cp-2-m3 [10.98.0.71] [10.99.0.171] cp-2 spare=false former=false",
		"cp-5":      "cp-5-m2 [10.98.0.69] [10.99.0.169] cp-5 spare=false former=false",
		"cp-2-old1": "cp-2 [10.98.0.12] [10.99.0.112] cp-2 spare=true former=true",
		"cp-2-old2": "cp-2-m2 [10.98.0.12] [10.99.0.161] cp-2 spare=true former=true",
		"cp-5-old1": "cp-5 [10.98.0.15] [10.99.0.115] cp-5 spare=true former=true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	spec.Swaps = append(spec.Swaps, Swap{Host: "worker-1"})
	if spec.Validate() == nil {
		t.Error("a swap of a worker was accepted")
	}
}

func TestInterfaceNamesFitTheKernel(t *testing.T) {
	l := NewLayout(Spec{Name: "abcdefghijklmnop", ControlPlanes: 5, Workers: maxWorkers}.WithDefaults())
	for _, h := range l.Hosts {
		for _, port := range []string{h.Machine.Port, h.Fencing.Port, delayDevice(h.Machine.Port)} {
			if len(port) > 15 {
				t.Errorf("%s is longer than 15 characters", port)
			}
		}
	}
}

func TestALayoutFollowsFromItsSpecAlone(t *testing.T) {
	if diff := cmp.Diff(layouts(), layouts(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	a := NewLayout(Spec{Name: "one", ControlPlanes: 1}.WithDefaults()).Hosts[0]
	b := NewLayout(Spec{Name: "two", ControlPlanes: 1}.WithDefaults()).Hosts[0]
	if a.UUID == b.UUID || a.Machine.MAC == b.Machine.MAC {
		t.Error("hosts of two labs share an identity")
	}
}

func TestTheInstallerAcceptsEveryLabsInstallConfig(t *testing.T) {
	for name, l := range layouts() {
		t.Run(name, func(t *testing.T) {
			text, err := l.InstallConfig()
			if err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if got := c.ControlPlaneReplicas(); got != l.Spec.ControlPlanes {
				t.Errorf("%d control planes, want %d", got, l.Spec.ControlPlanes)
			}
			if fenced := c.ControlPlane.Fencing != nil; fenced != (l.Spec.ControlPlanes == 2) {
				t.Errorf("fencing credentials: %t", fenced)
			}
			if c.RendezvousIP != l.Hosts[0].Machine.addrs()[0].String() {
				t.Errorf("rendezvous at %s", c.RendezvousIP)
			}
		})
	}
}

func TestTheNameServerKnowsTheClusterAndNothingElse(t *testing.T) {
	metal := newZone(NewLayout(Spec{Name: "site", ControlPlanes: 2, Families: []Family{V4, V6}}.WithDefaults()))
	none := newZone(NewLayout(Spec{Name: "site", ControlPlanes: 1}.WithDefaults()))
	tests := []struct {
		zone zone
		name string
		want string
	}{
		{metal, "api.site.holdfast.test.", "10.98.0.5 fd98::5"},
		{metal, "API.Site.holdfast.test.", "10.98.0.5 fd98::5"},
		{metal, "console.apps.site.holdfast.test.", "10.98.0.6 fd98::6"},
		{metal, "a.b.apps.site.holdfast.test.", "10.98.0.6 fd98::6"},
		{metal, "apps.site.holdfast.test.", ""},
		{metal, "api-int.site.holdfast.test.", ""},
		{metal, "cp-1.site.holdfast.test.", ""},
		{metal, "example.org.", ""},
		{none, "api.site.holdfast.test.", "10.98.0.11"},
		{none, "api-int.site.holdfast.test.", "10.98.0.11"},
		{none, "x.apps.site.holdfast.test.", "10.98.0.11"},
	}
	for _, tt := range tests {
		addrs, ok := tt.zone.lookup(tt.name)
		if got := strings.Join(texts(addrs), " "); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q (%t), want %q", tt.name, got, ok, tt.want)
		}
	}
}

func TestEtcdMembersKeepAll64BitsOfTheirID(t *testing.T) {
	list := `{"members":[{"ID":9372538179322589801,"name":"cp-1"},{"ID":18249187646912138824,"name":"cp-2","isLearner":true}]}`
	got, err := parseEtcd([]byte(list), []byte(`[{"Status":{"leader":9372538179322589801}}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []EtcdMember{{"cp-1", "8211f1d0f64f3269", "leader"}, {"cp-2", "fd422379fda50e48", "learner"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := parseEtcd([]byte(list), []byte(`[]`)); err != nil || got[0].Role != "unknown" {
		t.Errorf("no endpoint answers: %v %v, want unknown", got, err)
	}
}

func TestFaultsSayWhatIsMissing(t *testing.T) {
	tests := []struct {
		fault Fault
		want  string
	}{
		{Fault{Kind: "meteor"}, `fault "meteor": there is no such fault`},
		{Fault{Kind: FaultDrop, NIC: "wifi"}, "drop: NIC \"wifi\": must be machine or fencing\ndrop: direction \"\": must be in or out"},
		{Fault{Kind: FaultLoss, Percent: 101}, "loss: percent 101: must be 1 to 100"},
		{Fault{Kind: FaultDelay}, "delay: delay 0s: must be 1ms to 1m0s"},
		{Fault{Kind: FaultProcessStop}, "process-stop: name a process, for example etcd"},
		{Fault{Kind: FaultBMC, Quirk: "mute", Value: "maybe"}, `quirk mute: "maybe": must be true or false`},
		{Fault{Kind: FaultFilterPort, Port: 70000, Protocol: "sctp", Direction: "up"}, "filter-port: port 70000: must be 1 to 65535, for example 2380/tcp\n" +
			"filter-port: protocol \"sctp\": must be tcp or udp, or none for both\nfilter-port: direction \"up\": must be in, out or both"},
		{Fault{Kind: FaultDrop, Direction: DirectionBoth}, "drop: direction \"both\": must be in or out"},
		{Fault{Kind: FaultFilterPort, Port: 2380}, ""},
		{Fault{Kind: FaultPowerCut}, ""},
		{Fault{Kind: FaultBMC, Quirk: "slow-off", Value: "5s"}, ""},
	}
	for _, tt := range tests {
		got := ""
		if err := tt.fault.Check(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.fault, got, tt.want)
		}
	}
}

func TestSecretsDoNotReachTheLogsOfAFailure(t *testing.T) {
	l := NewLayout(Spec{Name: "site", ControlPlanes: 1}.WithDefaults())
	redact := (&Lab{Layout: l}).redactor()
	secrets := map[string]string{
		"BMC password":  "auth " + l.Hosts[0].BMC.Password,
		"bootstrap":     "kubeadm join --token abcdef.0123456789abcdef",
		"bearer":        "Authorization: Bearer hunter2hunter2hunter2",
		"private key":   "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
		"json password": `{"password": "hunter2hunter2"}`,
		"jwt":           "eyJhbGciOiJSUzI1NiIs.eyJpc3MiOiJrdWJlcm5.hunter2",
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		got := redact(secrets[name])
		for _, leak := range []string{l.Hosts[0].BMC.Password, "hunter2", "0123456789abcdef"} {
			if strings.Contains(got, leak) {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	if plain := "etcd started at 10.98.0.11:2379"; redact(plain) != plain {
		t.Errorf("%q was changed", plain)
	}
}

// TestEtcdsDiskIsInMemoryUnlessItsDataAreLarge: the machine's memory holds no disk for a quota.
func TestEtcdsDiskIsInMemoryUnlessItsDataAreLarge(t *testing.T) {
	for want, s := range map[Disk][]Spec{
		DiskInMemory:  {{}, {EtcdQuota: 5, EtcdDisk: DiskInMemory}},
		DiskOfMachine: {{EtcdQuota: 2}, {EtcdDisk: DiskOfMachine}},
	} {
		for _, s := range s {
			if got := s.WithDefaults().EtcdDisk; got != want {
				t.Errorf("%+v: %s, want %s", s, got, want)
			}
		}
	}
}

func TestEtcdsDiskHasRoomForItsQuota(t *testing.T) {
	for quota, want := range map[int]int64{0: 2 << 30, 2: 2 << 30, 5: 22 << 30, 8: 34 << 30} {
		if got := (Spec{EtcdQuota: quota}).etcdDisk(); got < want || got > want*11/10 {
			t.Errorf("%d GiB: %d bytes, want %d and at most a tenth more", quota, got, want)
		}
	}
}
