package twonode

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/model/corosync"
)

// CorosyncOf returns the parts of a corosync.conf that the set-up needs.
func CorosyncOf(conf corosync.Conf) Corosync {
	c := Corosync{
		Name: conf.Name, TwoNode: conf.TwoNode, WaitsNot: conf.WaitsNot,
		Totem: settingsOf(conf.Totem), Crypto: settingsOf(conf.Crypto), Link: settingsOf(conf.Link),
	}
	for _, n := range conf.Nodes {
		var first string
		if len(n.Addresses) > 0 {
			first = n.Addresses[0]
		}
		c.Nodes = append(c.Nodes, Node{Name: n.Name, Address: first})
	}
	return c
}

func settingsOf(list []corosync.Setting) []Setting {
	var out []Setting
	for _, s := range list {
		out = append(out, Setting{Name: s.Name, Value: s.Value})
	}
	return out
}

// Example reports whether it is the one-node example that a distribution's
// package installs and starts, and so nobody's cluster.
func (c Corosync) Example() bool {
	return len(c.Nodes) == 1 && (c.Nodes[0].Address == "127.0.0.1" || c.Nodes[0].Address == "::1") && c.Name == "debian"
}

// Plain names the missing setting if packets between the hosts are not both
// encrypted and signed, empty if they are. A person may choose the cipher.
func (c Corosync) Plain() string {
	for _, name := range []string{"cipher", "hash"} {
		if v, _ := value(c.Crypto, name); v == "" || v == "none" {
			return "crypto_" + name
		}
	}
	return ""
}

// Is returns an error unless this is the cluster of an input's two hosts.
func (c Corosync) Is(in Input) error {
	if !sameNodes(c.Nodes, in.Nodes) || !c.TwoNode || c.WaitsNot || c.Plain() != "" {
		return fmt.Errorf("corosync.conf names %s and not %s as two hosts, or is not encrypted; nothing was changed", listNodes(c.Nodes), listNodes(in.Nodes))
	}
	return nil
}
