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

// Former is the host in whose place another one enters a cluster, empty if there was none.
type Former struct {
	Name string
	// Number is the number that it had in corosync.conf, zero if that is not known.
	Number int
}

// number returns the number of a host that enters. A Pacemaker that runs keeps the name that it met
// under a number, even if it was told to forget the host: a second name under that number never
// joins. So the same name gets its number again, and another name one above all that are or were in
// use.
func (was Former) number(name string, blocks []nodeBlock) int {
	used := func(number int) bool {
		return slices.ContainsFunc(blocks, func(b nodeBlock) bool { return b.number == number })
	}
	if was.Name == name && was.Number > 0 && !used(was.Number) {
		return was.Number
	}
	number := 1
	if was.Name != "" && was.Name != name {
		number = 1 + max(was.Number, twoNodes)
		for _, b := range blocks {
			number = max(number, b.number+1)
		}
	}
	for used(number) {
		number++
	}
	return number
}

// Enter returns a corosync.conf with one more host, as pcs would write it. Both hosts get these
// bytes, because only the file has the numbers.
func Enter(conf []byte, n Node, was Former) ([]byte, error) {
	lines := bytes.Split(conf, []byte("\n"))
	blocks := nodeBlocks(lines)
	if len(blocks) == 0 {
		return nil, errors.New("change corosync.conf: it names no host")
	}
	if slices.ContainsFunc(blocks, func(b nodeBlock) bool { return b.name == n.Name }) {
		return conf, nil
	}
	number := was.number(n.Name, blocks)
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
