package backup

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/config"
)

// Request is what the child is asked to do. All parts may be repeated: a backup that lies
// there already is not taken again, and is only sent to the targets that lack it.
type Request struct {
	// ID names the backup that is taken; empty takes none, and only removes.
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason,omitempty"`
	Site   string `json:"site"`
	Host   string `json:"host"`
	// Life is the life of the site if it is known: a restored site is of another one.
	Life       string   `json:"life,omitempty"`
	Recipients []string `json:"recipients,omitempty"`
	Targets    []Target `json:"targets,omitempty"`
	// Remove lists backups of this host that go: their copies at the targets first, then
	// the folder on the host. A backup that is not in the catalogue of this host, and the
	// last good one, are never removed.
	Remove []string `json:"remove,omitempty"`
	Limits Limits   `json:"limits,omitzero"`
}

// Limits bound the work. Zero stands for a default.
type Limits struct {
	// Total is the time for everything.
	Total time.Duration `json:"total,omitempty"`
	// Send is the time for one target.
	Send time.Duration `json:"send,omitempty"`
	// Idle is the time within which a target must take or give some bytes.
	Idle time.Duration `json:"idle,omitempty"`
	// BytesPerSecond bounds how fast etcd is read and targets are written.
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
}

// The defaults of Limits.
const (
	DefaultTotal          = 3 * time.Hour
	DefaultSend           = time.Hour
	DefaultIdle           = time.Minute
	DefaultBytesPerSecond = 50 << 20
)

// Complete fills in the defaults.
func (l Limits) Complete() Limits {
	if l.Total <= 0 {
		l.Total = DefaultTotal
	}
	if l.Send <= 0 {
		l.Send = DefaultSend
	}
	if l.Idle <= 0 {
		l.Idle = DefaultIdle
	}
	if l.BytesPerSecond <= 0 {
		l.BytesPerSecond = DefaultBytesPerSecond
	}
	return l
}

// Format implements fmt.Formatter without secrets.
func (r Request) Format(f fmt.State, _ rune) {
	type plain Request
	_, _ = fmt.Fprintf(f, "%+v", plain(r))
}

// Encode writes a request with its credentials: keep it in a file of mode 0600.
func (r Request) Encode() ([]byte, error) { return config.Reveal(r) }

// DecodeRequest reads what Encode wrote. It skips fields that it does not know: the agent
// may be of another release than the child. The error never holds the text.
func DecodeRequest(data []byte) (Request, error) {
	var r Request
	if err := yaml.Unmarshal(data, &r); err != nil {
		return Request{}, errors.New("the request for a backup is not readable")
	}
	return r, r.check()
}

// check keeps a request from leading out of its folders.
func (r Request) check() error {
	switch {
	case r.ID != "" && !ValidID(r.ID):
		return fmt.Errorf("the request for a backup has the id %q: want a time and a host, as in %s", r.ID, NewID("cp-1", time.Unix(0, 0)))
	case !nameForm.MatchString(r.Site), !nameForm.MatchString(r.Host):
		return fmt.Errorf("the request for a backup names site %q and host %q: want names of DNS", r.Site, r.Host)
	case len(r.Targets) > 0 && len(r.Recipients) == 0 && r.ID != "":
		return errors.New("the request for a backup has targets and no recipients: nothing leaves a host that is not encrypted")
	}
	for _, id := range r.Remove {
		if !ValidID(id) {
			return fmt.Errorf("the request for a backup removes %q, which is no id", id)
		}
	}
	return nil
}
