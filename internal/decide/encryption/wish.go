package encryption

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Subject names the keys where people and programs are told of rotations, beside the names of
// authorities.
const Subject = "encryption-key"

// unfinished is the time after the last step of a rotation from which on people should look at
// it, as for authorities: the command gives up after 30 minutes.
const unfinished = 2 * time.Hour

// Wish is what the ConfigMap says.
type Wish struct {
	// Keys are those that every host is to have; nil if nobody has asked for any yet.
	Keys Keys
	// Rewritten is the key with which everything was last written anew, 0 for never.
	Rewritten int
	// At is when the command wrote it, by the command's clock; zero if an earlier release, the
	// installation or a person did.
	At time.Time
}

// ReadWish reads what Data writes; no data are no wish.
func ReadWish(data map[string]string) (w Wish, err error) {
	w.Rewritten, _ = strconv.Atoi(data[WishRewritten]) // anything else counts as none
	w.At, _ = time.Parse(time.RFC3339, data[WishAt])
	if text := data[WishKeys]; text != "" {
		if w.Keys, err = Parse(text); err != nil {
			err = fmt.Errorf("ConfigMap %s/%s: %w", WishNamespace, WishName, err)
		}
	}
	return w, err
}

// Data returns the data of the ConfigMap.
func (w Wish) Data() map[string]string {
	return map[string]string{WishKeys: w.Keys.String(), WishRewritten: strconv.Itoa(w.Rewritten), WishAt: w.At.UTC().Format(time.RFC3339)}
}

// Late returns from when on people should look at a rotation, zero if none is under way. unsettled
// says that a host has other keys than those of the wish. If the wish does not say when it was
// written, people should look at once.
func (w Wish) Late(unsettled bool) time.Time {
	switch {
	case len(w.Keys) < 2 && !unsettled:
		return time.Time{}
	case w.At.IsZero():
		return time.Unix(0, 0)
	}
	return w.At.Add(unfinished)
}

// Unfinished reports whether a rotation is under way, or a host has other keys than those that
// are wanted, and with which step that goes on. It is never Done. A host that is away gets its
// keys when it is back, and of one that says nothing nothing is known.
func (s Seen) Unfinished() (Step, bool) {
	unsettled := func(h Host) bool {
		return h.Ready && h.Loaded != nil && (len(h.Loaded) > 1 || s.Wish != nil && !slices.Equal(h.Loaded, s.Wish))
	}
	if len(s.Wish) < 2 && !slices.ContainsFunc(s.Hosts, unsettled) {
		return Step{}, false
	}
	return Next(s, false), true
}
