package twonode

import (
	"slices"
	"strings"
	"testing"
)

// oneOf returns what Drift says of the wanted configuration with one change.
func oneOf(change func(*Config)) []Difference {
	have := Wanted(site())
	change(&have)
	return Drift(have, Wanted(site()))
}

// resource changes one resource of a configuration.
func resource(id string, change func(*Resource)) func(*Config) {
	return func(c *Config) {
		i := slices.IndexFunc(c.Resources, func(r Resource) bool { return r.ID == id })
		change(&c.Resources[i])
	}
}

func add(c Constraint) func(*Config) {
	return func(have *Config) { have.Constraints = append(have.Constraints, c) }
}

func TestWhoSetsADifferenceBack(t *testing.T) {
	const nobody, holdfast, host = "nobody", "the host that decides for Pacemaker", "each host its own file"
	for _, c := range []struct {
		name   string
		change func(*Config)
		who    string
		words  string
	}{
		{"a property", func(c *Config) { c.Properties = c.Properties[1:] }, holdfast, "stonith-enabled is not set, not true (the two-node protocol of etcd depends on it)"},
		{"totem", func(c *Config) { c.Corosync.Totem = c.Corosync.Totem[1:] }, host, "corosync.conf: token is not set, not 1500"},
		{"the link", func(c *Config) { c.Corosync.Link = c.Corosync.Link[1:] }, nobody, "corosync.conf: knet_ping_interval is not set, not 500 (in ms)"},
		{"no encryption", func(c *Config) { c.Corosync.Crypto = c.Corosync.Crypto[1:] }, nobody, "corosync.conf: crypto_cipher is not set: anyone"},
		{"no signature", func(c *Config) { c.Corosync.Crypto = c.Corosync.Crypto[:1] }, nobody, "corosync.conf: crypto_hash is not set: anyone"},
		{"no clone", resource(Kubelet, func(r *Resource) { r.Clone = nil }), holdfast, "kubelet is not cloned: it runs on only one host"},
		{"a clone of another name", resource(Kubelet, func(r *Resource) { r.Clone = &Clone{ID: "mine"} }), nobody, "resource kubelet is cloned as mine: remove the clone"},
		{"a device that is cloned", resource(DeviceOf("cp-1"), func(r *Resource) { r.Clone = &Clone{ID: "mine"} }), nobody, "resource cp-1_redfish is cloned as mine: remove the clone"},
		{"another agent", resource(Etcd, func(r *Resource) { r.Agent = "ocf:heartbeat:podman-etcd" }), nobody, "resource etcd is run by ocf:heartbeat:podman-etcd"},
		{"a group", resource(Kubelet, func(r *Resource) { r.Within = "theirs" }), nobody, "resource kubelet is part of theirs: take it out"},
		{
			"a monitor that is off", resource(Etcd, func(r *Resource) {
				r.Operations[2].Settings = append(r.Operations[2].Settings, Setting{Name: "enabled", Value: "false"})
			}), nobody, "etcd: monitor is not enabled: a failure goes unnoticed",
		},
		{
			"a constraint of another kind", func(c *Config) { c.Constraints[2].Kind = Location }, nobody,
			"constraint holdfast-kubelet-then-etcd is a rsc_location, not a rsc_order",
		},
		{
			"a constraint with a setting more", func(c *Config) {
				c.Constraints[2].Settings = append(c.Constraints[2].Settings, Setting{Name: "symmetrical", Value: "false"})
			}, holdfast, "constraint holdfast-kubelet-then-etcd is missing or differs (kubelet first",
		},
	} {
		ds := oneOf(c.change)
		if len(ds) != 1 || !strings.HasPrefix(ds[0].Words, c.words) {
			t.Errorf("%s: want %q, got\n%s", c.name, c.words, told(ds))
			continue
		}
		who := nobody
		switch {
		case ds[0].Own:
			who = host
		case ds[0].Ours:
			who = holdfast
		}
		if who != c.who {
			t.Errorf("%s: %s sets it back, not %s", c.name, c.who, who)
		}
	}
}

func TestWithoutCorosyncsFileNothingIsSaidOfIt(t *testing.T) {
	if ds := Drift(cibOf(t, "ours.xml"), Wanted(site())); len(ds) > 0 {
		t.Error(told(ds))
	}
}

func TestWhoTheHostsAreIsComparedOnlyWhereTheClusterIsKnown(t *testing.T) {
	moved := Wanted(Input{Cluster: "pcm", Nodes: []Node{{"cp-1", "10.0.0.1"}, {"cp-2", "10.0.0.2"}}})
	ds := Drift(Wanted(site()), moved)
	if len(ds) != 1 || ds[0].Ours || !strings.Contains(ds[0].Words, "node_ip_map is cp-1:10.98.0.11;cp-2:10.98.0.12, but the hosts are cp-1:10.0.0.1;cp-2:10.0.0.2") {
		t.Error(told(ds))
	}
	moved.Corosync.Name = ""
	if ds := Drift(Wanted(site()), moved); len(ds) > 0 {
		t.Error(told(ds))
	}
}

func TestTheHostsOfAClusterThatStandsAreKept(t *testing.T) {
	want := Wanted(Input{Cluster: "new", Nodes: []Node{{"cp-1", "10.0.0.1"}, {"cp-2", "10.0.0.2"}}})
	of := want.Of(Wanted(site()))
	if got := settings(of)["etcd.node_ip_map"]; got.Value != "cp-1:10.98.0.11;cp-2:10.98.0.12" || got.Why == "" || of.Corosync.Name != "pcm" {
		t.Errorf("%+v of %q", got, of.Corosync.Name)
	}
	if got := settings(want)["etcd.node_ip_map"].Value; got != "cp-1:10.0.0.1;cp-2:10.0.0.2" {
		t.Errorf("the wanted configuration was changed: %s", got)
	}
	if got := settings(want.Of(Config{}))["etcd.node_ip_map"].Value; got != "cp-1:10.0.0.1;cp-2:10.0.0.2" {
		t.Errorf("where nothing is set up: %q", got)
	}
}

func TestAnyResourceOfOursShowsThatTheSetUpWasHere(t *testing.T) {
	for _, c := range []struct {
		resource Resource
		ours     bool
	}{
		{Resource{ID: Kubelet, Agent: "systemd:kubelet"}, true},
		{Resource{ID: Etcd, Agent: EtcdAgent}, true},
		{Resource{ID: "renamed", Agent: "stonith:" + FenceAgent}, true},
		{Resource{ID: "theirs", Agent: "stonith:fence_redfish"}, false},
		{Resource{ID: "my" + FenceAgent, Agent: "stonith:my" + FenceAgent}, false},
	} {
		if got := (Config{Resources: []Resource{{ID: "vip"}, c.resource}}).SetUp(); got != c.ours {
			t.Errorf("%+v: %t", c.resource, got)
		}
	}
	if (Config{}).SetUp() {
		t.Error("nothing is ours in an empty configuration")
	}
}

func TestWhichPropertiesOfAPersonEndanger(t *testing.T) {
	for _, c := range []struct {
		name, endangers, told string
		harmless              []string
	}{
		{"symmetric-cluster", "false", "nothing runs on a host", []string{"true"}},
		{"enable-startup-probes", "false", "are not detected", []string{"true"}},
		{"fence-reaction", "panic", "panics", []string{"stop"}},
		{"priority-fencing-delay", "15s", "in addition to the fence agent's own delay", []string{"0", "0s"}},
		{"stonith-watchdog-timeout", "10s", "counts as off", []string{"0", "0s"}},
		{"shutdown-lock", "true", "do not run elsewhere", []string{"false"}},
		{"node-health-strategy", "migrate-on-red", "move kubelet and etcd away", []string{"none"}},
		{"cluster-delay", "", "", []string{"70s"}},
	} {
		for _, value := range c.harmless {
			if ds := oneOf(func(have *Config) { have.Properties = append(have.Properties, Setting{Name: c.name, Value: value}) }); len(ds) > 0 {
				t.Errorf("%s=%s: %s", c.name, value, told(ds))
			}
		}
		if c.endangers == "" {
			continue
		}
		ds := oneOf(func(have *Config) {
			have.Properties = append(have.Properties, Setting{Name: c.name, Value: c.endangers})
		})
		if len(ds) != 1 || ds[0].Ours || !strings.HasPrefix(ds[0].Words, c.name+" is "+c.endangers+": ") || !strings.Contains(ds[0].Words, c.told) {
			t.Errorf("%s=%s: %s", c.name, c.endangers, told(ds))
		}
	}
}

func TestWhichDefaultsOfAPersonReachOurResources(t *testing.T) {
	for name, reaches := range map[string]bool{
		"is-managed": true, "target-role": true, "maintenance": true, "on-fail": true, "enabled": true, "allow-unhealthy-nodes": true,
		"resource-stickiness": false, "timeout": false,
	} {
		setting := []Setting{{Name: name, Value: "x"}}
		for list, ds := range map[string][]Difference{
			"resources":  oneOf(func(c *Config) { c.ResourceDefaults = setting }),
			"operations": oneOf(func(c *Config) { c.OperationDefaults = setting }),
		} {
			if (len(ds) == 1) != reaches || len(ds) > 1 {
				t.Errorf("%s, of %s: %s", name, list, told(ds))
			}
		}
	}
}

func TestADelayOfPacemakersComesOnTopOfThatOfOurDevicesAlone(t *testing.T) {
	for _, c := range []struct {
		device, name, value string
		told                bool
	}{
		{DeviceOf("cp-1"), "pcmk_delay_base", "5s", true},
		{DeviceOf("cp-1"), "pcmk_delay_max", "1m", true},
		{DeviceOf("cp-1"), "pcmk_delay_max", "0s", false},
		{"theirs", "pcmk_delay_max", "10s", false},
	} {
		ds := oneOf(func(have *Config) {
			have.Resources = append(have.Resources, Resource{ID: "theirs", Agent: "stonith:fence_ipmilan"})
			resource(c.device, func(r *Resource) { r.Parameters = append(r.Parameters, Setting{Name: c.name, Value: c.value}) })(have)
		})
		if (len(ds) == 1) != c.told || len(ds) > 1 {
			t.Errorf("%+v: %s", c, told(ds))
		}
	}
}

func TestWhichConstraintsOfAPersonBindOurResources(t *testing.T) {
	of := func(kind ConstraintKind, words ...string) Constraint {
		c := Constraint{ID: "theirs", Kind: kind}
		for _, w := range words {
			name, value, _ := strings.Cut(w, "=")
			c.Settings = append(c.Settings, Setting{Name: name, Value: value})
		}
		return c
	}
	for _, c := range []struct {
		constraint Constraint
		told       string
	}{
		{of(Location, "rsc=etcd-clone", "node=cp-2", "score=-INFINITY"), "keeps etcd-clone from cp-2"},
		{of(Location, "rsc=kubelet", "node=cp-2", "score=-10"), "keeps kubelet from cp-2"},
		{of(Location, "rsc=etcd-clone"), "keeps etcd-clone from some node"}, // a rule holds its score
		{of(Location, "rsc=etcd-clone", "node=cp-2", "score=INFINITY"), ""},
		{of(Location, "rsc=vip", "node=cp-2", "score=-INFINITY"), ""},
		{of(Order, "first=db", "then=etcd-clone"), "stops etcd-clone when db stops"},
		{of(Order, "first=db", "then=etcd-clone", "kind=Serialize"), "stops etcd-clone when db stops"},
		{of(Order, "first=db", "then=etcd-clone", "kind=Optional"), ""},
		{of(Order, "first=etcd-clone", "then=db"), ""},
		{of(Colocation, "rsc=etcd-clone", "with-rsc=db", "score=INFINITY"), "stops etcd-clone unless db runs"},
		{of(Colocation, "rsc=etcd-clone", "with-rsc=db", "score=-INFINITY"), "stops etcd-clone unless db runs"},
		{of(Colocation, "rsc=etcd-clone", "with-rsc=db", "score=500"), ""},
		{of(Colocation, "rsc=db", "with-rsc=etcd-clone", "score=INFINITY"), ""},
		{of("rsc_ticket", "rsc=etcd-clone", "then=etcd-clone", "score=-INFINITY"), ""},
	} {
		ds := oneOf(add(c.constraint))
		switch {
		case c.told == "" && len(ds) > 0:
			t.Errorf("%+v: %s", c.constraint, told(ds))
		case c.told != "" && (len(ds) != 1 || ds[0].Ours || !strings.Contains(ds[0].Words, c.told) || !strings.Contains(ds[0].Words, "pcs constraint delete theirs")):
			t.Errorf("%+v: want %q, got %s", c.constraint, c.told, told(ds))
		}
	}
}
