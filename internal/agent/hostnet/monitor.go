package hostnet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Finding describes the state of one part of a host's network.
type Finding struct {
	Part string `json:"part"`
	// InStep is false where the agent or an administrator has something to do.
	InStep bool `json:"inStep"`
	// Facts describe the state, Trouble the problems, one line each.
	Facts   []string `json:"facts"`
	Trouble []string `json:"trouble,omitempty"`
}

// Monitored returns the parts that can be monitored.
func Monitored() []string { return []string{"keepalived", "haproxy", "coredns"} }

// silent is the greatest age of the status while the agent works.
const silent = 3 * network.Resync

// Monitor compares the files of a part with what the agent would write, and adds
// what the agent reports about that part.
func Monitor(part string, s network.Status, root string, now time.Time) (Finding, error) {
	f := Finding{Part: part}
	want, err := Render(part, s.View, root)
	if err != nil {
		return f, err
	}
	f.fact("decided: %s", want.Why)
	for _, file := range want.Files {
		f.compare(root, file)
	}
	f.reconciler(s, part)
	switch part {
	case "keepalived":
		f.keepalived(s)
	case "haproxy":
		f.haproxy(s)
	case "coredns":
		f.coredns(s, len(want.Files) > 0)
	}
	if age := now.Sub(s.At); age > silent {
		f.trouble("the agent has not written its status for %s: systemctl status holdfast-agent", age.Round(time.Second))
	}
	f.InStep = len(f.Trouble) == 0
	return f, nil
}

func (f *Finding) fact(format string, args ...any) {
	f.Facts = append(f.Facts, fmt.Sprintf(format, args...))
}

func (f *Finding) trouble(format string, args ...any) {
	f.Trouble = append(f.Trouble, fmt.Sprintf(format, args...))
}

func (f *Finding) compare(root string, want state.File) {
	have, err := os.ReadFile(filepath.Join(root, want.Path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.trouble("%s does not exist", want.Path)
	case err != nil:
		f.trouble("%v", err)
	case !bytes.Equal(have, want.Data):
		f.trouble("%s is not what the agent would write (holdfast-agent render %s shows that)", want.Path, f.Part)
	default:
		f.fact("%s is as it should be", want.Path)
	}
}

// pieceNames maps each part to the name of its reconciler.
var pieceNames = map[string]string{"keepalived": "keepalived", "haproxy": "haproxy", "coredns": "names"}

func (f *Finding) reconciler(s network.Status, part string) {
	for _, p := range s.Reconcilers {
		if p.Name != pieceNames[part] {
			continue
		}
		if p.Changed != "" {
			f.fact("last changed at %s: %s", p.ChangedAt.Format(time.RFC3339), p.Changed)
		}
		if p.Error != "" {
			f.trouble("the agent has failed %d times since %s: %s", p.Failures, p.FailingSince.Format(time.RFC3339), p.Error)
		}
	}
}

func (f *Finding) keepalived(s network.Status) {
	var held []string
	for _, a := range s.Holds {
		held = append(held, a.String())
	}
	if len(held) == 0 {
		held = []string{"no virtual IP"}
	}
	f.fact("this host holds %s", strings.Join(held, ", "))
	for _, c := range s.View.Claims {
		f.trouble("%s", vrrp.Explain(c))
	}
	for _, forged := range s.View.Forged {
		f.trouble("%s", vrrp.ExplainForged(forged))
	}
}

func (f *Finding) haproxy(s network.Status) {
	if !s.View.Role.ControlPlane() || !s.View.Settings.ManagedVIPs {
		return
	}
	b := s.View.Balancer
	switch {
	case !b.Known:
		f.trouble("haproxy does not answer")
	case b.Value.Live() == 0:
		f.trouble("haproxy has no live API server among %d", len(b.Value.Backends))
	default:
		f.fact("haproxy has %d live API servers of %d", b.Value.Live(), len(b.Value.Backends))
	}
	f.fact("the API's virtual IPs lead to haproxy: %t", s.View.Redirected)
}

func (f *Finding) coredns(s network.Status, wanted bool) {
	if !wanted {
		return
	}
	switch dns := s.View.LocalDNS; {
	case !dns.Known:
		f.fact("the name server was not checked yet")
	case !dns.Value:
		f.trouble("the name server does not answer")
	default:
		f.fact("the name server answers")
	}
}
