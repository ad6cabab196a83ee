package twonode

import (
	"bytes"
	"strings"
	"testing"
)

func TestEachCommandSaysWhyItIsRun(t *testing.T) {
	steps := func(change func(*Config)) []Command {
		have := Wanted(site())
		change(&have)
		cmds, err := Steps(have, Wanted(site()))
		if err != nil {
			t.Fatal(err)
		}
		return cmds
	}
	corosync := func(have Corosync) []Command {
		cmds, err := CorosyncSteps(have, Wanted(site()).Corosync)
		if err != nil {
			t.Fatal(err)
		}
		return cmds
	}
	token := Wanted(site()).Corosync
	token.Totem = token.Totem[1:]
	for _, c := range []struct {
		name     string
		cmds     []Command
		commands string
		why      string
	}{
		{"no cluster yet", corosync(Corosync{}), "pcs cluster setup pcm", "this host is not in a cluster yet: token: in ms: a host that is silent"},
		{"no token", corosync(token), "pcs cluster config update totem token=1500", "token: in ms: a host that is silent"},
		{"no properties", steps(func(c *Config) { c.Properties = c.Properties[2:] }), "pcs property set stonith-enabled=true stonith-action=reboot", "stonith-enabled: the two-node protocol of etcd depends on it; stonith-action: a fenced host comes back by itself"},
		{"no device", steps(func(c *Config) { c.Resources = c.Resources[1:] }), "pcs stonith create cp-1_redfish fence_holdfast plug=cp-1", "there is no cp-1_redfish yet"},
		{
			"no clone", steps(resource(Kubelet, func(r *Resource) { r.Clone = nil })), "pcs resource clone kubelet kubelet-clone interleave=true",
			"it runs on both nodes: interleave: a node's kubelet matters to that node only",
		},
		{
			"a clone that is not as wanted", steps(resource(Kubelet, func(r *Resource) { r.Clone = &Clone{ID: KubeletClone} })), "pcs resource meta kubelet-clone interleave=true",
			"interleave: a node's kubelet matters to that node only",
		},
		{"no constraint", steps(func(c *Config) { c.Constraints = c.Constraints[1:] }), "pcs constraint location add cp-1_redfish-not-on-cp-1 cp-1_redfish cp-1 -INFINITY --force", "the peer does the fencing"},
	} {
		if len(c.cmds) != 1 || !strings.HasPrefix(show(c.cmds), c.commands) || !strings.HasPrefix(c.cmds[0].Why, c.why) {
			t.Errorf("%s: %q\n%s", c.name, c.cmds, show(c.cmds))
		}
	}
}

func TestAConstraintThatSaysMoreIsMadeAnew(t *testing.T) {
	have := Wanted(site())
	have.Constraints[2].Settings = append(have.Constraints[2].Settings, Setting{Name: "symmetrical", Value: "false"})
	cmds, err := Steps(have, Wanted(site()))
	const want = "pcs constraint delete holdfast-kubelet-then-etcd\n" +
		"pcs constraint order start kubelet-clone then start etcd-clone kind=Optional id=holdfast-kubelet-then-etcd --force\n"
	if err != nil || show(cmds) != want || cmds[0].Why != "Holdfast's own constraint differs" {
		t.Errorf("%v\n%s", err, show(cmds))
	}
}

func TestAnUpdateNamesOnlyWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Resource)
		want   string
	}{
		"a parameter":      {func(r *Resource) { r.Parameters = nil }, "pcs resource update etcd node_ip_map=cp-1:10.98.0.11;cp-2:10.98.0.12\n"},
		"a meta attribute": {func(r *Resource) { r.Meta = r.Meta[1:] }, "pcs resource update etcd meta migration-threshold=10\n"},
		"an operation":     {func(r *Resource) { r.Operations[0].Settings = nil }, "pcs resource update etcd op start timeout=30s\n"},
	} {
		have := Wanted(site())
		resource(Etcd, c.change)(&have)
		if cmds, err := Steps(have, Wanted(site())); err != nil || show(cmds) != c.want {
			t.Errorf("%s: %v\n%s", name, err, show(cmds))
		}
	}
}

func TestAResourceWithoutMetaAttributesIsMadeWithout(t *testing.T) {
	if got := show([]Command{{Args: Resource{ID: "x", Agent: "systemd:x"}.create().Args}}); got != "pcs resource create x systemd:x --no-default-ops\n" {
		t.Error(got)
	}
}

func TestAClusterWithoutHostsIsStillSomebodys(t *testing.T) {
	if _, err := CorosyncSteps(Corosync{Name: "theirs"}, Wanted(site()).Corosync); err == nil || !strings.Contains(err.Error(), `"theirs"`) {
		t.Error(err)
	}
}

func TestAResourceIsReadWithWhatIsAroundIt(t *testing.T) {
	const text = `<cib><configuration><resources>
<primitive id="alone" class="ocf" provider="heartbeat" type="Dummy"/>
<clone id="c"><primitive id="cloned" class="systemd" type="x"/></clone>
<clone id="cg"><group id="in-clone"><primitive id="deep" class="systemd" type="x"/></group></clone>
<group id="g"><primitive id="grouped" class="systemd" type="x"/></group>
<master id="m"><primitive id="promoted" class="systemd" type="x"/></master>
<bundle id="b"><primitive id="bundled" class="systemd" type="x"/></bundle>
</resources>
<op_defaults><meta_attributes><nvpair name="on-fail" value="ignore"/></meta_attributes></op_defaults>
</configuration></cib>`
	c, err := ParseCIB([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{ // the clone, and any other element
		"alone": {}, "cloned": {"c", ""}, "deep": {"", "in-clone"}, "grouped": {"", "g"}, "promoted": {"", "m"}, "bundled": {"", "b"},
	}
	for _, r := range c.Resources {
		got := [2]string{"", r.Within}
		if r.Clone != nil {
			got[0] = r.Clone.ID
		}
		if around, ok := want[r.ID]; !ok || around != got {
			t.Errorf("%s is in %v, not in %v", r.ID, got, around)
		}
		delete(want, r.ID)
	}
	if len(want) > 0 || len(c.OperationDefaults) != 1 {
		t.Errorf("not read: %v, %+v", want, c.OperationDefaults)
	}
	if _, err := ParseCIB([]byte("<cib><configuration>")); err == nil || !strings.HasPrefix(err.Error(), "read CIB: ") {
		t.Errorf("half a CIB: %v", err)
	}
}

func TestTheKeyOfCorosyncIsTheSameOnBothHostsAndOfOneClusterAlone(t *testing.T) {
	in := site()
	key := CorosyncKey(in)
	if len(key) != 256 {
		t.Fatalf("%d bytes", len(key))
	}
	other := in
	other.Self = "cp-2"
	if !bytes.Equal(CorosyncKey(other), key) {
		t.Error("the peer makes another key")
	}
	other = in
	other.Cluster = "another"
	if bytes.Equal(CorosyncKey(other), key) {
		t.Error("another cluster has the same key")
	}
	other = in
	other.Token = "a-token-of-another-site"
	if bytes.Equal(CorosyncKey(other), key) {
		t.Error("another secret makes the same key")
	}
}

func TestANameThatPcsRefusesIsMadeOfItsOwnLetters(t *testing.T) {
	for name, begin := range map[string]string{"fifteen-letters": "fifteen-letters", "a.b": "a-b-", "sixteen_letters_": "sixteen_-", "ä b": "--b-"} {
		got := CorosyncName(name)
		if !strings.HasPrefix(got, begin) || len(got) > 15 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

func TestTheExampleOfADistributionMayBeOfEitherFamily(t *testing.T) {
	for address, example := range map[string]bool{"127.0.0.1": true, "::1": true, "fd98::1": false, "": false} {
		if got := (Corosync{Name: "debian", Nodes: []Node{{"node1", address}}}).Example(); got != example {
			t.Errorf("%q: %t", address, got)
		}
	}
}

func TestAHostOfCorosyncWithoutAnAddressIsReadToo(t *testing.T) {
	c, err := corosyncOf([]byte("nodelist {\n node {\n name: cp-1\n }\n}\n"))
	if err != nil || len(c.Nodes) != 1 || c.Nodes[0] != (Node{Name: "cp-1"}) {
		t.Errorf("%+v, %v", c.Nodes, err)
	}
}
