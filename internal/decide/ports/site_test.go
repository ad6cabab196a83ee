package ports_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/holdfast/holdfast/internal/decide/ports"
)

var (
	pair  = Kind{ControlPlane: true, Fencing: true, Flannel: true}
	place = Place{Interface: "eth0", Machines: nets("10.98.0.0/24", "fd98::/64"), Pods: nets("10.128.0.0/14")}
)

// zones is the output of firewall-cmd 1.3 on a host as RHEL installs it.
const zones = `block
  target: %%REJECT%%
  icmp-block-inversion: no
  interfaces: 
  sources: 
  services: 
  ports: 
  protocols: 
  forward: yes
  masquerade: no
  forward-ports: 
  source-ports: 
  icmp-blocks: 
  rich rules: 

public (default, active)
  target: default
  icmp-block-inversion: no
  interfaces: eth1
  sources: 
  services: cockpit dhcpv6-client ssh
  ports: 6443/tcp 2379-2380/tcp
  protocols: 
  forward: yes
  masquerade: no
  forward-ports: 
	port=80:proto=tcp:toport=8080:toaddr=
  source-ports: 
  icmp-blocks: 
  rich rules: 

trusted
  target: ACCEPT
  icmp-block-inversion: no
  interfaces: 
  sources: 10.128.0.0/14
  services: 
  ports: 
  protocols: 
  rich rules: 
`

func TestWhatFirewalldRefuses(t *testing.T) {
	o := FirewalldZones(zones, place)
	cluster, applications := o.Refused(pair)
	if got, want := strings.Join(cluster, " "), "protocol vrrp 53/tcp 53/udp 2382/tcp 5353/udp 5405-5412/udp 8472/udp 9445/tcp 10250/tcp 22623/tcp"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := strings.Join(applications, " "), "80/tcp 443/tcp 1936/tcp 10256/tcp 30000-32767/tcp 30000-32767/udp"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if o.Unsure || o.All || !slices.Equal(o.Services, []string{"cockpit", "dhcpv6-client", "ssh"}) || !slices.Equal(o.Pods, place.Pods) {
		t.Errorf("%+v", o)
	}
	o.Add(FirewalldService("high-availability\n  ports: 2224/tcp 5404/udp 5405-5412/udp\n  protocols: 112\n  includes: \n"))
	if cluster, _ := o.Refused(pair); slices.Contains(cluster, "5405-5412/udp") || slices.Contains(cluster, "protocol vrrp") {
		t.Errorf("what a service stands for is not open: %v", cluster)
	}
	if cluster, _ := o.Refused(Kind{}); slices.Contains(cluster, "22623/tcp") || slices.Contains(cluster, "8472/udp") {
		t.Errorf("a worker without Flannel has no such ports: %v", cluster)
	}
}

func TestTheZoneOfTheHostsInterfaceCounts(t *testing.T) {
	for name, text := range map[string]string{
		"a zone that accepts":           strings.Replace(zones, "interfaces: \n  sources: 10.128", "interfaces: eth0\n  sources: 10.128", 1),
		"the machine networks accepted": strings.Replace(zones, "10.128.0.0/14", "10.128.0.0/14 10.98.0.0/16 fd98::/64", 1),
	} {
		if o := FirewalldZones(text, place); !o.All {
			t.Errorf("%s: %+v", name, o)
		}
	}
	half := strings.Replace(zones, "10.128.0.0/14", "10.98.0.0/25", 1)
	if o := FirewalldZones(half, place); o.All || len(o.Pods) > 0 {
		t.Errorf("half of the machine network: %+v", o)
	}
	rich := strings.Replace(zones, "icmp-blocks: \n  rich rules: \n\ntrusted", "icmp-blocks: \n  rich rules: \n\trule family=\"ipv4\" source address=\"10.98.0.0/24\" accept\n\ntrusted", 1)
	if o := FirewalldZones(rich, place); !o.Unsure {
		t.Error("a rule that nobody here understands")
	}
	if o := FirewalldZones("", place); o.All || len(o.Ports) > 0 {
		t.Errorf("%+v", o)
	}
}

const ufwHead = "Status: active\nLogging: on (low)\nDefault: deny (incoming), allow (outgoing), deny (routed)\nNew profiles: skip\n\n" +
	"To                         Action      From\n--                         ------      ----\n"

func TestWhatUFWRefuses(t *testing.T) {
	o, active := UFW(ufwHead+`22/tcp (OpenSSH)           ALLOW IN    Anywhere                   # the way in
6443/tcp                   ALLOW IN    10.98.0.0/24
2379:2380/tcp              ALLOW IN    Anywhere
53                         ALLOW IN    Anywhere
80,443/tcp                 ALLOW IN    Anywhere
10.98.0.11 9445/tcp        ALLOW IN    Anywhere
Anywhere                   ALLOW IN    10.98.0.0/24/vrrp
Anywhere                   ALLOW IN    10.128.0.0/14
8472/udp                   DENY IN     Anywhere
10250/tcp                  ALLOW OUT   Anywhere
53 (v6)                    ALLOW IN    Anywhere (v6)
10.128.0.0/14              ALLOW FWD   Anywhere
`, place)
	cluster, applications := o.Refused(pair)
	if got, want := strings.Join(cluster, " "), "2382/tcp 5353/udp 5405-5412/udp 8472/udp 10250/tcp 22623/tcp"; !active || got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(strings.Join(applications, " "), "443") || !slices.Equal(o.Pods, place.Pods) {
		t.Errorf("%v, %+v", applications, o)
	}
	for text, all := range map[string]bool{
		"Anywhere   ALLOW IN    Anywhere\n":                                              true,
		"Anywhere   ALLOW IN    10.98.0.0/24\n":                                          true,
		"Anywhere   ALLOW IN    10.98.0.7\n":                                             false,
		"Anywhere on cni0   ALLOW IN    Anywhere\n":                                      false,
		"Anywhere   ALLOW IN    10.98.0.0/24/tcp\n":                                      false,
		"Status: active\nDefault: allow (incoming), allow (outgoing), disabled (routed)": true,
	} {
		at := place
		if o, _ := UFW(ufwHead+text, at); o.All != all {
			t.Errorf("%q: %+v", text, o)
		}
	}
	if _, active := UFW("Status: inactive\n", place); active {
		t.Error("it does nothing")
	}
}

func FuzzUFW(f *testing.F) {
	f.Add(ufwHead + "Anywhere on  ALLOW IN\n, ALLOW IN ,\n")
	f.Fuzz(func(_ *testing.T, text string) {
		o, _ := UFW(text, place)
		_, _ = o.Refused(pair)
	})
}

func FuzzFirewalld(f *testing.F) {
	f.Add(zones)
	f.Add("\tx\n  ports:\n-/tcp")
	f.Fuzz(func(_ *testing.T, text string) {
		o := FirewalldZones(text, place)
		o.Add(FirewalldService(text))
		_, _ = o.Refused(pair)
	})
}
