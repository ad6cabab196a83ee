package hostapply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// Lock is one that a program holds at logind.
type Lock struct {
	// What lists the actions that it holds up, with colons between. Who and Why are words of the program.
	What, Who, Why, Mode string
	User, Process        uint32
}

const (
	// maxLocks and maxLockWords bound what is said of locks: anybody writes into them what he likes.
	maxLocks     = 3
	maxLockWords = 80
)

// Blocked says who forbids shutdowns at logind; empty if nobody does. Such a program says that a boot
// would do harm, as a package manager does in the middle of its work. That systemd before 257 lets root
// pass is no reason to boot all the same. One that only delays is no reason to wait: logind sees to it.
func Blocked(locks []Lock) string {
	held := slices.DeleteFunc(slices.Clone(locks), func(l Lock) bool {
		return l.Mode != "block" || !slices.Contains(strings.Split(l.What, ":"), "shutdown")
	})
	if len(held) == 0 {
		return ""
	}
	// logind has no order, and what a host says is to change only if the locks do.
	slices.SortFunc(held, func(a, b Lock) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Who, b.Who), cmp.Compare(a.Why, b.Why))
	})
	var by []string
	for _, l := range held[:min(len(held), maxLocks)] {
		by = append(by, "by "+l.holder())
	}
	if more := len(held) - maxLocks; more > 0 {
		by = append(by, fmt.Sprintf("by %d more", more))
	}
	return "shutdowns are blocked at logind " + strings.Join(by, ", ") + "; it boots once nobody blocks them (on the host: systemd-inhibit --list)"
}

// holder names who holds a lock, and why.
func (l Lock) holder() string {
	user := "root"
	if l.User != 0 {
		user = fmt.Sprintf("user %d", l.User)
	}
	words := func(text string) string { return page.OneLine(page.Printable(text), maxLockWords) }
	return fmt.Sprintf("%q (%q), process %d of %s", words(l.Who), words(l.Why), l.Process, user)
}
