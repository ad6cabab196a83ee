package backup

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/config"
)

// Request is the request for a run of the child. It may be carried out again: a backup that
// is in the catalogue already is not taken again, and is only sent to the targets that lack it.
type Request struct {
	// ID names the backup to take; if it is empty, the run only removes.
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason,omitempty"`
	Site   string `json:"site"`
	Host   string `json:"host"`
	// Life is the life of the site if it is known: a restore begins another one.
	Life       string   `json:"life,omitempty"`
	Recipients []string `json:"recipients,omitempty"`
	Targets    []Target `json:"targets,omitempty"`
	// Remove lists backups of this host to remove: their copies at the targets first, then the
	// folder on the host. The child never removes the last good backup, nor the last one with
	// a copy at one of Targets, nor one that is not in the catalogue of this host.
	Remove []string `json:"remove,omitempty"`
	Limits Limits   `json:"limits,omitzero"`
}

// Limits bound the work. Zero stands for the default.
type Limits struct {
	// Total is the time for everything.
	Total time.Duration `json:"total,omitempty"`
	// Send is the time for one target. A large backup gets more of it, up to Most (ToSend).
	Send time.Duration `json:"send,omitempty"`
	Most time.Duration `json:"most,omitempty"`
	// Idle is the time within which a target must take or give some bytes.
	Idle time.Duration `json:"idle,omitempty"`
	// BytesPerSecond bounds the speed at which etcd is read and targets are written.
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
}

// The defaults of Limits.
const (
	DefaultTotal          = 3 * time.Hour
	DefaultSend           = time.Hour
	DefaultIdle           = time.Minute
	DefaultBytesPerSecond = 50 << 20
)

// slowest is the speed of a line, in bytes per second, for which the time of one target is enough: about one
// Mbit/s. A line that moves no byte is given up much earlier, by Limits.Idle.
const slowest = 128 << 10

// ToSend returns the time for one target and a file of a size, which goes there and is read back.
func (l Limits) ToSend(size int64) time.Duration {
	need := min(float64(2*size)/slowest, l.Most.Seconds())
	return max(l.Send, time.Duration(need*float64(time.Second)))
}

// Complete returns the limits with the defaults in place of zeros.
func (l Limits) Complete() Limits {
	if l.Total <= 0 {
		l.Total = DefaultTotal
	}
	if l.Send <= 0 {
		l.Send = DefaultSend
	}
	l.Most = max(l.Most, l.Send) // an agent of before 2026-12-01 gives none, and ends the run by its own limit
	if l.Idle <= 0 {
		l.Idle = DefaultIdle
	}
	if l.BytesPerSecond <= 0 {
		l.BytesPerSecond = DefaultBytesPerSecond
	}
	return l
}

// Format implements fmt.Formatter; it prints no secrets.
func (r Request) Format(f fmt.State, _ rune) {
	type plain Request
	_, _ = fmt.Fprintf(f, "%+v", plain(r))
}

// Encode encodes a request with its credentials: keep it in a file of mode 0600.
func (r Request) Encode() ([]byte, error) { return config.Reveal(r) }

// DecodeRequest decodes a request. It ignores unknown fields, because the agent may be of
// another release than the child. Its errors never hold the text.
func DecodeRequest(data []byte) (Request, error) {
	var r Request
	if err := yaml.Unmarshal(data, &r); err != nil {
		return Request{}, errors.New("the request for a backup is not readable")
	}
	return r, r.check()
}

// check returns an error for a name that would lead out of the folders.
func (r Request) check() error {
	switch {
	case r.ID != "" && !ValidID(r.ID):
		return fmt.Errorf("the request for a backup has the id %q: want a time and a host, as in %s", r.ID, NewID("cp-1", time.Unix(0, 0)))
	case !nameForm.MatchString(r.Site), !nameForm.MatchString(r.Host):
		return fmt.Errorf("the request for a backup names site %q and host %q: want names of DNS", r.Site, r.Host)
	case len(r.Targets) > 0 && len(r.Recipients) == 0 && r.ID != "":
		return errors.New("the request for a backup has targets and no recipients: backups leave a host only encrypted")
	}
	for _, id := range r.Remove {
		if !ValidID(id) {
			return fmt.Errorf("the request for a backup removes %q, which is no id", id)
		}
	}
	return nil
}
