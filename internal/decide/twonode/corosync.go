package twonode

import "github.com/holdfast/holdfast/internal/model/corosync"

// CorosyncOf is what of a corosync.conf matters to the set-up.
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
// package brings and starts: nobody's cluster.
func (c Corosync) Example() bool {
	return len(c.Nodes) == 1 && (c.Nodes[0].Address == "127.0.0.1" || c.Nodes[0].Address == "::1") && c.Name == "debian"
}

// Plain says what packets between the hosts lack, nothing where they are
// encrypted and signed. Which cipher it is, a person may choose.
func (c Corosync) Plain() string {
	for _, name := range []string{"cipher", "hash"} {
		if v, _ := value(c.Crypto, name); v == "" || v == "none" {
			return "crypto_" + name
		}
	}
	return ""
}
