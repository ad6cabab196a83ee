package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Choose returns the control plane to ask for a backup if a person names none. It must report
// its backups and be ready; one that does not wait comes first, then one whose last try did not fail,
// then the first by name. ready is true for hosts whose kubelet reports. The error says for each host why it
// cannot be asked.
func (s Site) Choose(ready map[string]bool) (string, error) {
	fit := slices.DeleteFunc(slices.Clone(s.Hosts), func(h Host) bool { return h.Silent != "" || !ready[h.Name] })
	if len(fit) == 0 {
		var why []string
		for _, h := range s.Hosts {
			text := "it is not ready"
			if h.Silent != "" {
				text = h.Silent
			}
			why = append(why, h.Name+": "+text)
		}
		if why == nil {
			return "", errors.New("the API has no control plane")
		}
		return "", fmt.Errorf("no control plane can take one: %s", strings.Join(why, "; "))
	}
	slices.SortFunc(fit, func(a, b Host) int {
		return cmp.Or(waits(a)-waits(b), fails(a)-fails(b), strings.Compare(a.Name, b.Name))
	})
	return fit[0].Name, nil
}

// waits is 1 for a host in whose way something is.
func waits(h Host) int {
	if h.Waits == "" {
		return 0
	}
	return 1
}

func fails(h Host) int {
	if h.Failed == nil {
		return 0
	}
	return h.Failed.Times
}

// Host returns the report of a host; false if there is no such control plane.
func (s Site) Host(name string) (Host, bool) {
	i := slices.IndexFunc(s.Hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, false
	}
	return s.Hosts[i], true
}

// Find returns the host and the backup of an id, or of the only id that begins with the text.
func (s Site) Find(id string) (string, Brief, error) {
	var hosts []string
	var out Brief
	for _, h := range s.Hosts {
		for _, b := range h.Kept {
			if b.ID == id {
				return h.Name, b, nil
			}
			if strings.HasPrefix(b.ID, id) && id != "" {
				hosts, out = append(hosts, h.Name), b
			}
		}
	}
	switch len(hosts) {
	case 0:
		return "", Brief{}, fmt.Errorf("backup %q: no control plane reports it; see: holdfast backup list", id)
	case 1:
		return hosts[0], out, nil
	}
	return "", Brief{}, fmt.Errorf("backup %q: %d ids begin with it; see: holdfast backup list", id, len(hosts))
}

// Says describes in a few words how far a host is with a wish; done is true once it has answered.
func (h Host) Says(wish string) (text string, done bool) {
	switch {
	case h.Silent != "":
		return h.Silent, false
	case h.Asked == wish && h.Answer.Failed != "":
		return "made no good backup: " + h.Answer.Failed, true
	case h.Asked == wish:
		return "took backup " + h.Answer.ID + ", which is good", true
	case h.Doing != nil && h.Doing.Phase != "":
		return h.Doing.Phase, false
	case h.Doing != nil:
		return "begins", false
	case h.Waits != "":
		return "waits: " + h.Waits, false
	}
	return "has not begun yet", false
}

// Answered returns how a wish ended; false while it did not. A host answers the wish that
// stands at its node alone, so the answer to a later one counts for the one before, too.
func (h Host) Answered(wish string) (Answer, bool) {
	if ReadAsked(h.Asked).At.Before(ReadAsked(wish).At) {
		return Answer{}, false
	}
	return h.Answer, true
}

// Lacks reports whether a wish has to be written to the node of the host: neither the wish
// nor a later one stands there, and neither was answered.
func (h Host) Lacks(wish string) bool {
	_, answered := h.Answered(wish)
	return !answered && ReadAsked(h.Wanted).At.Before(ReadAsked(wish).At)
}

// Unsent says of a backup to which of its targets it could not be sent, and why. It does not name
// those to which it was never sent.
func (b Brief) Unsent() []string {
	var out []string
	for _, c := range b.Copies {
		if c.Verified.IsZero() {
			out = append(out, c.Target+": "+c.Failed)
		}
	}
	return out
}

// Lack says which targets of a host lack a backup of it, and why. A backup has no word about a
// target if the unit was cut off before the end of the sending.
func (h Host) Lack(b Brief) []string {
	var out []string
	for _, name := range h.Targets {
		i := slices.IndexFunc(b.Copies, func(c Copy) bool { return c.Target == name })
		switch {
		case i < 0:
			out = append(out, name+": it was not sent to the end yet")
		case b.Copies[i].Verified.IsZero():
			out = append(out, name+": "+b.Copies[i].Failed)
		}
	}
	return out
}
