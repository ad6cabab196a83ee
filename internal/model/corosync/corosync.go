// Package corosync reads corosync.conf, within bounds. No other package parses
// that file; package decide/twonode decides what it should say.
package corosync

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Path is the path of the file on a host.
const Path = "/etc/corosync/corosync.conf"

// The bounds of the file. That of two hosts has 1 kB.
const (
	// MaxBytes bounds the text.
	MaxBytes    = 1 << 20
	maxSections = 8
)

// Conf holds the content of corosync.conf. It is empty on a host that is in no
// cluster.
type Conf struct {
	// Name is the name of the cluster.
	Name  string
	Nodes []Node
	// TwoNode is true if one of two nodes has quorum. It also makes a host that
	// boots wait for its peer (wait_for_all).
	TwoNode bool
	// WaitsNot is true if somebody turned that wait off.
	WaitsNot bool
	// Totem holds the settings by which members watch each other, Crypto those by
	// which packets are encrypted and signed, without crypto_, and Link those by
	// which a link is watched, without knet_: the first link that has a setting
	// counts.
	Totem, Crypto, Link []Setting
}

// Setting is one name and its value.
type Setting struct{ Name, Value string }

// Node is a host in the file, with the addresses of its links.
type Node struct {
	Name      string
	Addresses []string
	// Number is its nodeid, zero if the file gives it none.
	Number int
}

// Parse reads the text. An empty text stands for no cluster. If a setting stands
// twice the last one counts, as it does for Corosync.
func Parse(text []byte) (Conf, error) {
	if len(text) > MaxBytes {
		return Conf{}, fmt.Errorf("read corosync.conf: it has %d bytes, more than %d", len(text), MaxBytes)
	}
	var p parser
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return Conf{}, fmt.Errorf("read corosync.conf: line %d: %w", number, err)
		}
	}
	if len(p.open) > 0 {
		return Conf{}, fmt.Errorf("read corosync.conf: section %s has no end: it is not whole", p.open[len(p.open)-1])
	}
	return p.out, nil
}

type parser struct {
	out  Conf
	open []string // sections
	node map[string]string
	link []Setting
}

func (p *parser) line(line string) error {
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
		return nil
	case strings.HasSuffix(line, "{"):
		if len(p.open) == maxSections {
			return fmt.Errorf("sections lie more than %d deep in each other", maxSections)
		}
		p.open = append(p.open, strings.TrimSpace(strings.TrimSuffix(line, "{")))
		p.begin()
		return nil
	case line == "}":
		return p.end()
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%.40q is neither a setting nor a section", line)
	}
	p.setting(strings.TrimSpace(name), strings.TrimSpace(value))
	return nil
}

func (p *parser) within(sections ...string) bool { return slices.Equal(p.open, sections) }

func (p *parser) begin() {
	switch {
	case p.within("nodelist", "node"):
		p.node = map[string]string{}
	case p.within("totem", "interface"):
		p.link = nil
	}
}

func (p *parser) end() error {
	if len(p.open) == 0 {
		return errors.New("a section ends that did not begin")
	}
	switch {
	case p.within("nodelist", "node"):
		p.out.Nodes = append(p.out.Nodes, nodeOf(p.node))
	case p.within("totem", "interface"):
		for _, s := range p.link {
			if index(p.out.Link, s.Name) < 0 {
				p.out.Link = append(p.out.Link, s)
			}
		}
	}
	p.open = p.open[:len(p.open)-1]
	return nil
}

func (p *parser) setting(name, value string) {
	switch {
	case p.within("nodelist", "node"):
		p.node[name] = value
	case p.within("totem"):
		p.totem(name, value)
	case p.within("totem", "interface"):
		set(&p.link, strings.TrimPrefix(name, "knet_"), value)
	case p.within("quorum") && name == "two_node":
		p.out.TwoNode = value == "1"
	case p.within("quorum") && name == "wait_for_all":
		p.out.WaitsNot = value == "0"
	}
}

func (p *parser) totem(name, value string) {
	set(&p.out.Totem, name, value)
	if name == "cluster_name" {
		p.out.Name = value
	}
	if crypto, ok := strings.CutPrefix(name, "crypto_"); ok {
		set(&p.out.Crypto, crypto, value)
	}
}

func index(list []Setting, name string) int {
	return slices.IndexFunc(list, func(s Setting) bool { return s.Name == name })
}

func set(list *[]Setting, name, value string) {
	if i := index(*list, name); i >= 0 {
		(*list)[i].Value = value
		return
	}
	*list = append(*list, Setting{name, value})
}

// nodeOf returns a node. Without a name it gets its first address as name, as in
// Pacemaker.
func nodeOf(settings map[string]string) Node {
	n := Node{Name: settings["name"]}
	n.Number, _ = strconv.Atoi(settings["nodeid"]) // a text that is no number counts as none
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if strings.HasPrefix(name, "ring") && strings.HasSuffix(name, "_addr") && settings[name] != "" {
			n.Addresses = append(n.Addresses, settings[name])
		}
	}
	if n.Name == "" && len(n.Addresses) > 0 {
		n.Name = n.Addresses[0]
	}
	return n
}
