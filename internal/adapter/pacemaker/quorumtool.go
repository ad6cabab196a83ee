package pacemaker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// reader assembles memberships from the lines of `corosync-quorumtool -m`.
type reader struct {
	// changed gets each membership; it is unknown if a report makes no sense.
	changed func(state.Fact[state.Membership])

	line []byte
	now  report
}

// report is the part of a report of corosync-quorumtool that was read so far.
type report struct {
	ring    string
	quorate string
	members []string
	listing bool
}

// Write takes output as it comes, in pieces of any length.
func (r *reader) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' {
			r.line = append(r.line, b)
			continue
		}
		r.take(strings.TrimSpace(string(r.line)))
		r.line = r.line[:0]
	}
	return len(p), nil
}

// take reads one line. The list of members is the last part of a report, and an
// empty line ends it.
func (r *reader) take(line string) {
	key, value, _ := strings.Cut(line, ":")
	switch {
	case line == "Quorum information":
		r.now = report{}
	case key == "Ring ID":
		r.now.ring = strings.TrimSpace(value)
	case key == "Quorate":
		r.now.quorate = strings.TrimSpace(value)
	case strings.HasPrefix(line, "Nodeid"):
		r.now.listing = true
	case r.now.listing && line == "":
		r.changed(r.now.membership())
		r.now = report{}
	case r.now.listing:
		r.now.members = append(r.now.members, memberName(line))
	}
}

// memberName returns the name in "1  1  cp-1 (local)"; with a quorum device
// there is one more column before it. It returns "" if the line has no name.
func memberName(line string) string {
	words := strings.Fields(strings.TrimSuffix(line, "(local)"))
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

func (r report) membership() state.Fact[state.Membership] {
	ring, err := ringNumber(r.ring)
	if err != nil || (r.quorate != "Yes" && r.quorate != "No") || len(r.members) == 0 || slices.Contains(r.members, "") {
		return state.Fact[state.Membership]{}
	}
	return state.Known(state.Membership{Ring: ring, Members: slices.Sorted(slices.Values(r.members)), Quorate: r.quorate == "Yes"})
}

// ringNumber makes one number from "1.1a": the node id of the ring's
// representative, and the ring's sequence number in hex. Two halves of a split
// may reach the same sequence number, but they have different representatives.
// The sequence number never goes back, because Corosync keeps it on the disk.
func ringNumber(id string) (uint64, error) {
	rep, seq, _ := strings.Cut(id, ".")
	node, err := strconv.ParseUint(rep, 10, state.RepresentativeBits)
	if err != nil {
		return 0, fmt.Errorf("ring %q: representative: %w", id, err)
	}
	n, err := strconv.ParseUint(seq, 16, 64-state.RepresentativeBits)
	if err != nil {
		return 0, fmt.Errorf("ring %q: sequence number: %w", id, err)
	}
	return n<<state.RepresentativeBits | node, nil
}
