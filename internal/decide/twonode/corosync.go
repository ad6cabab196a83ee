package twonode

import (
	"fmt"
	"strings"
)

// section is a part of corosync.conf: `name { key: value ... }`.
type section struct {
	name     string
	settings []Setting
	sections []*section
}

func (s *section) value(name string) string {
	v, _ := value(s.settings, name)
	return v
}

func (s *section) all(name string) []*section {
	var out []*section
	for _, child := range s.sections {
		if child.name == name {
			out = append(out, child)
		}
	}
	return out
}

// ParseCorosync reads a corosync.conf. No file is no cluster.
func ParseCorosync(text []byte) (Corosync, error) {
	root, err := parseSections(string(text))
	if err != nil {
		return Corosync{}, fmt.Errorf("read corosync.conf: %w", err)
	}
	var c Corosync
	for _, totem := range root.all("totem") {
		c.Name = totem.value("cluster_name")
		c.Totem = append(c.Totem, totem.settings...)
		for _, s := range totem.settings {
			if name, ok := strings.CutPrefix(s.Name, "crypto_"); ok {
				c.Crypto = append(c.Crypto, Setting{Name: name, Value: s.Value})
			}
		}
		for _, link := range totem.all("interface") {
			for _, s := range link.settings {
				c.Link = append(c.Link, Setting{Name: strings.TrimPrefix(s.Name, "knet_"), Value: s.Value})
			}
		}
	}
	for _, list := range root.all("nodelist") {
		for _, n := range list.all("node") {
			c.Nodes = append(c.Nodes, Node{Name: n.value("name"), Address: n.value("ring0_addr")})
		}
	}
	for _, quorum := range root.all("quorum") {
		c.TwoNode = quorum.value("two_node") == "1"
		c.WaitsNot = quorum.value("wait_for_all") == "0"
	}
	return c, nil
}

func parseSections(text string) (*section, error) {
	open := []*section{{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		now := open[len(open)-1]
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasSuffix(line, "{"):
			child := &section{name: strings.TrimSpace(strings.TrimSuffix(line, "{"))}
			now.sections = append(now.sections, child)
			open = append(open, child)
		case line == "}":
			if len(open) == 1 {
				return nil, fmt.Errorf("a section ends that did not begin")
			}
			open = open[:len(open)-1]
		default:
			name, v, ok := strings.Cut(line, ":")
			if !ok {
				return nil, fmt.Errorf("line %.40q is neither a setting nor a section", line)
			}
			now.settings = append(now.settings, Setting{Name: strings.TrimSpace(name), Value: strings.TrimSpace(v)})
		}
	}
	if len(open) != 1 {
		return nil, fmt.Errorf("section %s has no end", open[len(open)-1].name)
	}
	return open[0], nil
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
