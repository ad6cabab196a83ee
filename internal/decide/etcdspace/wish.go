package etcdspace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// WishLasts is how long a person's wish counts. Nobody expects a defragmentation hours later,
// from a host that was off when it was asked.
const WishLasts = 10 * time.Minute

// Wish is a person's wish for a defragmentation, as it stands at the Node of the host.
type Wish struct {
	// Text is the whole wish, by which it is identified.
	Text string
	// At is the time at which it was made; zero if that cannot be read.
	At time.Time
}

// Ask returns the text of a wish that is made now.
func Ask(now time.Time) string { return now.UTC().Format(time.RFC3339Nano) }

// ReadWish reads the text of a wish.
func ReadWish(text string) Wish {
	at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(text))
	if err != nil {
		return Wish{Text: text}
	}
	return Wish{Text: text, At: at}
}

// Refused returns why a wish does not count at a time; empty if it counts.
func (w Wish) Refused(now time.Time) string {
	switch age := now.Sub(w.At); {
	case w.At.IsZero():
		return fmt.Sprintf("annotation %s: must be a time as in %s", WantedOf, Ask(now))
	case age > WishLasts:
		return fmt.Sprintf("the wish is of %s, and counts for %s; here it is %s", stamp(w.At), page.Duration(WishLasts), stamp(now))
	case age < -WishLasts:
		return fmt.Sprintf("the wish is of %s, and here it is %s only: compare the clocks", stamp(w.At), stamp(now))
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// final are the rules by which a wish leads to nothing, however long it waits.
var final = []string{"quota", "version", "corrupt", "too-large", "nothing-to-gain", "rest"}

// Final reports whether nothing follows from a wish by this verdict, now and later. Any other
// verdict without a step ends by itself.
func (v Verdict) Final() bool { return v.Step == None && slices.Contains(final, v.Rule) }

// Done is a defragmentation that succeeded.
type Done struct {
	At time.Time `json:"at"`
	// Before and After are the sizes of the database, After zero if etcd did not say it.
	Before int64         `json:"before"`
	After  int64         `json:"after,omitempty"`
	Took   time.Duration `json:"took"`
}

// String says it in words.
func (d Done) String() string {
	if d.After == 0 {
		return fmt.Sprintf("%s before, in %s", size(d.Before), d.Took.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("from %s to %s in %s", size(d.Before), size(d.After), d.Took.Round(100*time.Millisecond))
}

// Answer is what became of a person's wish.
type Answer struct {
	// Done is the defragmentation, zero if there was none.
	Done Done `json:"done,omitzero"`
	// Failed says why one failed, Refused why none was begun.
	Failed  string `json:"failed,omitempty"`
	Refused string `json:"refused,omitempty"`
}

// Answers returns the journal with the answer to a wish.
func (j Journal) Answers(wish string, a Answer) Journal {
	j.Asked, j.Answer = wish, a
	return j
}
