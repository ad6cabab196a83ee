package pacemakerstatus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The bounds of a corosync.conf. One of two hosts has 1 kB.
const (
	// MaxCorosyncBytes bounds the text.
	MaxCorosyncBytes = 1 << 20
	maxSections      = 8
)

// ParseCorosync reads a corosync.conf. It reads every link of a node, of which
// the setup needs the first alone.
func ParseCorosync(text []byte) (Corosync, error) {
	if len(text) > MaxCorosyncBytes {
		return Corosync{}, fmt.Errorf("read corosync.conf: it has %d bytes, more than %d", len(text), MaxCorosyncBytes)
	}
	var p corosyncParser
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return Corosync{}, fmt.Errorf("read corosync.conf: line %d: %w", number, err)
		}
	}
	if len(p.open) > 0 {
		return Corosync{}, fmt.Errorf("read corosync.conf: section %s has no end: it is not whole", p.open[len(p.open)-1])
	}
	return p.out, nil
}

type corosyncParser struct {
	out  Corosync
	open []string // sections
	node map[string]string
}

func (p *corosyncParser) line(line string) error {
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
		return nil
	case strings.HasSuffix(line, "{"):
		if len(p.open) == maxSections {
			return fmt.Errorf("sections lie more than %d deep in each other", maxSections)
		}
		p.open = append(p.open, strings.TrimSpace(strings.TrimSuffix(line, "{")))
		if p.within("nodelist", "node") {
			p.node = map[string]string{}
		}
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

func (p *corosyncParser) within(sections ...string) bool { return slices.Equal(p.open, sections) }

func (p *corosyncParser) end() error {
	if len(p.open) == 0 {
		return errors.New("a section ends that did not begin")
	}
	if p.within("nodelist", "node") {
		p.out.Nodes = append(p.out.Nodes, hostOf(p.node))
	}
	p.open = p.open[:len(p.open)-1]
	return nil
}

func (p *corosyncParser) setting(name, value string) {
	switch {
	case p.within("nodelist", "node"):
		p.node[name] = value
	case p.within("quorum") && name == "two_node":
		p.out.TwoNode = value == "1"
	case p.within("quorum") && name == "wait_for_all":
		p.out.WaitsNot = value == "0"
	}
}

// hostOf is a node by its name; one without goes by its first address, as
// Pacemaker calls it then too.
func hostOf(settings map[string]string) Host {
	h := Host{Name: settings["name"]}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if strings.HasPrefix(name, "ring") && strings.HasSuffix(name, "_addr") {
			h.Addresses = append(h.Addresses, settings[name])
		}
	}
	if h.Name == "" && len(h.Addresses) > 0 {
		h.Name = h.Addresses[0]
	}
	return h
}
