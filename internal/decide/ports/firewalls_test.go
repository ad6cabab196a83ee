package ports_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/holdfast/holdfast/internal/decide/ports"
)

// zone is a zone of firewalld with some lines.
func zone(name string, lines ...string) string {
	return name + "\n  " + strings.Join(lines, "\n  ") + "\n"
}

func TestWhichZoneOfFirewalldCounts(t *testing.T) {
	trusted := zone("trusted", "target: ACCEPT", "interfaces: eth0", "sources: ")
	public := zone("public (default, active)", "target: default", "interfaces: ", "ports: 6443/tcp")
	for name, c := range map[string]struct {
		text  string
		all   bool
		ports int
	}{
		"the first one, which has the interface":            {trusted + "\n" + public, true, 0},
		"the last one, which has the interface":             {public + "\n" + trusted, true, 0},
		"the default, as none has the interface":            {public + "\n" + strings.ReplaceAll(trusted, "eth0", "eth9"), false, 1},
		"a blank line ends no zone":                         {strings.Replace(public, "  ports", "\n  ports", 1), false, 1},
		"none, as no zone has it and none is the default":   {strings.ReplaceAll(trusted, "eth0", "eth9"), false, 0},
		"sources of a zone that does not accept let nobody": {public + zone("drop", "target: DROP", "sources: 10.98.0.0/16"), false, 1},
	} {
		o := FirewalldZones(c.text, place)
		if o.All != c.all || len(o.Ports) != c.ports || o.Unsure {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestTheServicesOfAServiceAreStillToBeRead(t *testing.T) {
	var o Openings
	o.Add(FirewalldService("mine\n  ports: 6443/tcp\n  includes: high-availability\n"))
	if !slices.Equal(o.Services, []string{"high-availability"}) {
		t.Errorf("%+v", o)
	}
}

func TestWhatAFirewallLetsInFromASource(t *testing.T) {
	one := Place{Interface: "eth0", Machines: nets("10.98.0.7/32"), Pods: nets("10.128.3.4/32")}
	for text, c := range map[string]struct {
		at                Place
		all, pods, unsure bool
	}{
		"10.98.0.0/24":     {place, true, false, false},
		"10.98.0.7":        {one, true, false, false}, // an address is a network of one
		"10.98.0.8":        {one, false, false, false},
		"10.128.3.4":       {one, false, true, false},
		"2001:db8::/32":    {one, false, false, false}, // no machine network is of that family
		"ipset:the-office": {place, false, false, true},
	} {
		zones := zone("trusted", "target: ACCEPT", "interfaces: ", "sources: "+text)
		if o := FirewalldZones(zones, c.at); o.All != c.all || (len(o.Pods) > 0) != c.pods || o.Unsure != c.unsure {
			t.Errorf("%s: %+v", text, o)
		}
	}
}

func TestWhatLetsEverythingInRefusesNothing(t *testing.T) {
	if cluster, applications := (Openings{All: true}).Refused(pair); len(cluster)+len(applications) > 0 {
		t.Errorf("%v, %v", cluster, applications)
	}
}

func TestAPortIsOpenOnlyForItsProtocol(t *testing.T) {
	cluster, _ := Openings{Ports: []Opening{{First: 53, Last: 53, Protocol: UDP}}}.Refused(pair)
	if !slices.Contains(cluster, "53/tcp") || slices.Contains(cluster, "53/udp") {
		t.Errorf("53/udp is open, and refused is %v", cluster)
	}
}

func TestAWorkerHasNoPortsOfThePair(t *testing.T) {
	cluster, _ := Openings{}.Refused(Kind{Fencing: true})
	for _, port := range []string{"2382/tcp", "5405-5412/udp", "2379-2380/tcp"} {
		if slices.Contains(cluster, port) {
			t.Errorf("%s: %v", port, cluster)
		}
	}
}

func TestHowUFWWritesWhatItLetsIn(t *testing.T) {
	opening := func(first, last uint16, list ...Protocol) (out []Opening) {
		for _, p := range list {
			out = append(out, Opening{First: first, Last: last, Protocol: p})
		}
		return out
	}
	for _, c := range []struct {
		name, rule string
		ports      []Opening
		vrrp       bool
		all        bool
		unsure     bool
	}{
		{"a port of one protocol", "53/udp ALLOW IN Anywhere", opening(53, 53, UDP), false, false, false},
		{"a port of both protocols", "53 ALLOW IN Anywhere", opening(53, 53, TCP, UDP), false, false, false},
		{"ports of one protocol", "53,80/tcp ALLOW IN Anywhere", slices.Concat(opening(53, 53, TCP), opening(80, 80, TCP)), false, false, false},
		{"a range", "2379:2380/tcp ALLOW IN Anywhere", opening(2379, 2380, TCP), false, false, false},
		{"a port at an interface, which may be that of pods", "6443/tcp on eth0 ALLOW IN Anywhere", opening(6443, 6443, TCP), false, false, true},
		{"all at an interface", "Anywhere on cni0 ALLOW IN Anywhere", nil, false, false, true},
		{"no port before the interface", "on eth0 ALLOW IN Anywhere", nil, false, false, true},
		{"no port", "  ALLOW IN Anywhere", nil, false, false, false},
		{"no source", "6443/tcp ALLOW IN ", nil, false, false, false},
		{"a name of an application", "OpenSSH ALLOW IN Anywhere", nil, false, false, true},
		{"a range whose end is a name", "80:http/tcp ALLOW IN Anywhere", nil, false, false, true},
		{"a range whose begin is a name", "http:80/tcp ALLOW IN Anywhere", nil, false, false, true},
		{"a wrong port beside a right one", "x,80/tcp ALLOW IN Anywhere", opening(80, 80, TCP), false, false, true},
		{"VRRP, named with the destination", "Anywhere/vrrp ALLOW IN 10.98.0.0/24", nil, true, false, false},
		{"VRRP, named with the source", "Anywhere ALLOW IN 10.98.0.0/24/vrrp", nil, true, false, false},
		{"all of one protocol", "Anywhere/tcp ALLOW IN Anywhere/tcp", nil, false, false, true},
		{"all of one protocol, named with the destination", "Anywhere/tcp ALLOW IN Anywhere", nil, false, false, true},
		{"all of one protocol from a network", "Anywhere ALLOW IN 10.98.0.0/24/udp", nil, false, false, true},
		{"all of one address, which is not the network", "Anywhere ALLOW IN 10.98.0.7", nil, false, false, false},
		{"a rule that a comment names", "6443/tcp DENY IN Anywhere # was ALLOW IN once", nil, false, false, false},
		{"a note about a default", "Note: allow (incoming) is usual", nil, false, false, false},
		{"everything", "Anywhere ALLOW IN Anywhere", nil, false, true, false},
	} {
		o, _ := UFW(ufwHead+c.rule+"\n", place)
		if !slices.Equal(o.Ports, c.ports) || slices.Contains(o.Protocols, "vrrp") != c.vrrp || o.All != c.all || o.Unsure != c.unsure {
			t.Errorf("%s: %+v", c.name, o)
		}
		behind, _ := UFW(c.rule+"\n"+ufwHead, place) // the place of the default does not matter
		if behind.All != o.All {
			t.Errorf("%s: before the default %t, behind it %t", c.name, behind.All, o.All)
		}
	}
}
