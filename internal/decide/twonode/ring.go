package twonode

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/model/corosync"
)

// Leave returns a corosync.conf without a host, as pcs would write it. The numbers of the other
// hosts stay, since a running Corosync does not take another one. A host that is left alone is no
// longer one of two, so it neither needs nor waits for a second one. A file without the host is
// returned unchanged.
func Leave(conf []byte, name string) ([]byte, error) {
	lines := bytes.Split(conf, []byte("\n"))
	for _, b := range nodeBlocks(lines) {
		if b.name == name {
			lines = slices.Delete(lines, b.from, b.to)
			break
		}
	}
	lines = slices.DeleteFunc(lines, func(l []byte) bool { return strings.TrimSpace(string(l)) == "two_node: 1" })
	return checkRing(bytes.Join(lines, []byte("\n")), func(c Corosync) error {
		switch {
		case has(c.Nodes, name):
			return fmt.Errorf("%s is still in it", name)
		case len(c.Nodes) == 0:
			return errors.New("it would have no host")
		}
		return nil
	})
}

// Enter returns a corosync.conf with one more host, under the lowest free number, as pcs would
// write it. Both hosts get these bytes, because only the file has the numbers.
func Enter(conf []byte, n Node) ([]byte, error) {
	lines := bytes.Split(conf, []byte("\n"))
	blocks := nodeBlocks(lines)
	if len(blocks) == 0 {
		return nil, errors.New("change corosync.conf: it names no host")
	}
	if slices.ContainsFunc(blocks, func(b nodeBlock) bool { return b.name == n.Name }) {
		return conf, nil
	}
	number := 1
	for slices.ContainsFunc(blocks, func(b nodeBlock) bool { return b.number == number }) {
		number++
	}
	entry := fmt.Sprintf("\n    node {\n        ring0_addr: %s\n        name: %s\n        nodeid: %d\n    }", n.Address, n.Name, number)
	lines = slices.Insert(lines, blocks[len(blocks)-1].to, bytes.Split([]byte(entry), []byte("\n"))...)
	if len(blocks) == 1 {
		i := slices.IndexFunc(lines, func(l []byte) bool { return strings.HasPrefix(strings.TrimSpace(string(l)), "provider:") })
		if i < 0 {
			return nil, errors.New("change corosync.conf: it has no provider of quorum")
		}
		lines = slices.Insert(lines, i+1, []byte("    two_node: 1"))
	}
	return checkRing(bytes.Join(lines, []byte("\n")), func(c Corosync) error {
		if !has(c.Nodes, n.Name) || len(c.Nodes) == twoNodes && (!c.TwoNode || c.WaitsNot) {
			return fmt.Errorf("%s would not be one of two in it", n.Name)
		}
		return nil
	})
}

func has(nodes []Node, name string) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == name })
}

// checkRing returns an edited file if it can be parsed and right accepts it.
func checkRing(conf []byte, right func(Corosync) error) ([]byte, error) {
	read, err := corosync.Parse(conf)
	if err == nil {
		err = right(CorosyncOf(read))
	}
	if err != nil {
		return nil, fmt.Errorf("change corosync.conf, which was not touched: %w", err)
	}
	return conf, nil
}

// nodeBlock is the section of a host, with the empty line before it.
type nodeBlock struct {
	from, to int // lines
	name     string
	number   int
}

func nodeBlocks(lines [][]byte) []nodeBlock {
	var out []nodeBlock
	for i := 0; i < len(lines); i++ {
		if strings.TrimSpace(string(lines[i])) != "node {" {
			continue
		}
		b := nodeBlock{from: i}
		for ; i < len(lines) && strings.TrimSpace(string(lines[i])) != "}"; i++ {
			key, value, _ := strings.Cut(strings.TrimSpace(string(lines[i])), ":")
			switch value = strings.TrimSpace(value); key {
			case "name":
				b.name = value
			case "nodeid":
				b.number, _ = strconv.Atoi(value) // a text that is no number counts as zero, which no host has
			}
		}
		b.to = min(i+1, len(lines))
		if b.from > 0 && len(bytes.TrimSpace(lines[b.from-1])) == 0 {
			b.from--
		}
		out = append(out, b)
	}
	return out
}
