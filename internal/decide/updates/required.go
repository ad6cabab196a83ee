package updates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Seen is what a host shows of a reboot that its distribution wants.
type Seen struct {
	// Flag is true if a package of Debian has left the file /run/reboot-required, and
	// Packages are the lines of the list beside it.
	Flag     bool
	Packages []string
	// Running is the kernel that runs, and Next the one that the distribution's link
	// names for the next boot; empty where there is no such link.
	Running, Next string
	// Tool is what needs-restarting says on RHEL: true if it wants a reboot; unknown
	// where there is no such program.
	Tool state.Fact[bool]
	// Why says what the tool named, or why it says nothing.
	Why string
	// Debian is true on a host with apt, which has no such tool.
	Debian bool
}

// Required is whether a distribution wants a reboot, and why. Unknown is not no.
type Required struct {
	Wants state.Fact[bool]
	Why   string
}

// and stands between reasons.
const and = "; "

// Within reports whether each reason of a text stands in another text of reasons.
func Within(why, other string) bool {
	all := strings.Split(other, and)
	for reason := range strings.SplitSeq(why, and) {
		if !slices.Contains(all, reason) {
			return false
		}
	}
	return true
}

// IsRequired returns what the distribution of a host wants.
func IsRequired(s Seen) Required {
	var why []string
	if s.Flag {
		names := slices.Clone(s.Packages)
		slices.Sort(names)
		why = append(why, strings.TrimSuffix("its packages ask for it: "+few(slices.Compact(names)), ": "))
	}
	if s.Next != "" && s.Running != "" && s.Next != s.Running {
		why = append(why, fmt.Sprintf("the kernel %s is installed, and %s runs", s.Next, s.Running))
	}
	if state.Is(s.Tool, true) {
		why = append(why, strings.TrimSuffix("needs-restarting asks for it: "+s.Why, ": "))
	}
	switch {
	case len(why) > 0:
		return Required{state.Known(true), strings.Join(why, and)}
	case s.Debian || state.Is(s.Tool, false):
		return Required{Wants: state.Known(false)}
	default:
		return Required{Why: s.Why}
	}
}

// maxWhy bounds a reason in an annotation, in bytes.
const maxWhy = 500

// String returns what stands in the annotation of a node.
func (r Required) String() string {
	why := strings.ToValidUTF8(strings.Join(strings.Fields(r.Why), " "), "")
	if len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy], "") + "..."
	}
	switch {
	case state.Is(r.Wants, true):
		return "Yes: " + why
	case r.Wants.Known:
		return "No"
	default:
		return strings.TrimSuffix("Unknown: "+why, ": ")
	}
}

// Read reads such a value. One that is missing is unknown.
func Read(value string) Required {
	word, why, _ := strings.Cut(value, ": ")
	switch word {
	case "Yes":
		return Required{state.Known(true), why}
	case "No":
		return Required{Wants: state.Known(false)}
	default:
		return Required{Why: why}
	}
}

// KernelOf returns the version in the target of a link such as
// boot/vmlinuz-6.1.0-28-amd64; empty if there is none.
func KernelOf(target string) string {
	_, version, _ := strings.Cut(target, "vmlinuz-")
	return version
}
