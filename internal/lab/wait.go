package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pollEvery is the interval at which the hosts' progress is read while a user
// watches.
const pollEvery = 250 * time.Millisecond

// HostProgress is the progress of one host, with its state as the lab sees it.
type HostProgress struct {
	HostStatus

	// Install is the host's own report. It has no steps before the host's agent
	// wrote any.
	Install state.Progress `json:"install"`
	// Trouble is the reason why a first boot gets stuck: what it waits for, or
	// why it was tried again.
	Trouble string `json:"trouble,omitempty"`
}

// firstBootGrace is the time that a first boot may be silent before the lab
// looks into the host, and the interval of later looks.
const firstBootGrace = 5 * time.Second

// firstBootWords prints the last log line of a first boot.
const firstBootWords = `journalctl --quiet --output cat --lines 1 _COMM=holdfast-agent`

// bootWatch looks into hosts whose agent is silent, but not too often.
type bootWatch struct {
	next  map[string]time.Time
	words map[string]string
}

func (w *bootWatch) look(ctx context.Context, hosts []HostProgress, now time.Time) {
	for i, h := range hosts {
		if _, any := h.Install.Current(); any || h.PID == 0 || now.Sub(h.Since) < firstBootGrace {
			continue
		}
		if now.After(w.next[h.Name]) {
			w.next[h.Name] = now.Add(firstBootGrace)
			out, err := look(ctx, h.PID, firstBootWords)
			if err == nil {
				w.words[h.Name] = strings.TrimSpace(string(out))
			}
		}
		hosts[i].Trouble = w.words[h.Name]
	}
}

// readProgress reads a running host's own report of its installation.
func readProgress(pid int) (state.Progress, error) {
	var p state.Progress
	data, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "root", state.ProgressPath))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(data, &p)
}

// Progress returns the progress of every host.
func (b *Lab) Progress(ctx context.Context, c *Client) ([]HostProgress, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]HostProgress, 0, len(st.Hosts))
	for _, h := range st.Hosts {
		p := HostProgress{HostStatus: h}
		if h.PID != 0 {
			p.Install, _ = readProgress(h.PID) // none yet
		}
		out = append(out, p)
	}
	return out, nil
}

// Wait returns once the installation of every host is complete. It ignores
// spare hosts that are off or have nothing to install. It calls view after each look, with the time since
// the start. It gives up after timeout, with an error that names the hosts that
// are not ready and what they report, or when the lab's daemon no longer
// answers.
func (b *Lab) Wait(ctx context.Context, c *Client, timeout time.Duration, view func([]HostProgress, time.Duration)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	watch := &bootWatch{next: map[string]time.Time{}, words: map[string]string{}}
	var last []HostProgress
	for answered := start; ; {
		hosts, err := b.Progress(ctx, c)
		if err == nil {
			hosts = b.awaited(hosts)
			answered, last = time.Now(), hosts
			watch.look(ctx, hosts, time.Now())
			view(hosts, time.Since(start))
			if complete(hosts) {
				return nil
			}
		}
		if time.Since(answered) > daemonPatience {
			return fmt.Errorf("the lab daemon no longer answers (%w): run 'holdfast lab up' again; the end of its log: %s", err, b.daemonWords())
		}
		if err := host.Sleep(ctx, pollEvery); err != nil {
			return unfinished(last, timeout, err)
		}
	}
}

// awaited returns the hosts without the spare ones that are off, and without spare control
// planes that have nothing to install.
func (b *Lab) awaited(hosts []HostProgress) []HostProgress {
	return slices.DeleteFunc(hosts, func(h HostProgress) bool {
		laidOut, _ := b.Layout.Host(h.Name)
		return laidOut.Spare && h.Power == PowerOff || laidOut.awaitsJoinFile() && !exists(b.ignitionFile(laidOut))
	})
}

func complete(hosts []HostProgress) bool {
	return !slices.ContainsFunc(hosts, func(h HostProgress) bool { return !h.Install.Complete })
}

// unfinished explains a wait that ended too early.
func unfinished(hosts []HostProgress, timeout time.Duration, cause error) error {
	if !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("interrupted (%w): the hosts continue by themselves; run 'holdfast lab up' again to wait for them", cause)
	}
	var open []string
	for _, h := range hosts {
		if !h.Install.Complete {
			open = append(open, h.Name+" "+h.Doing())
		}
	}
	return fmt.Errorf("not installed after %s: %s", timeout, strings.Join(open, "; "))
}

// Doing describes in a few words what a host is doing.
func (h HostProgress) Doing() string {
	_, begun := h.Install.Current()
	switch {
	case h.Power == PowerPOST:
		return "is in its power-on self-test"
	case h.Power == PowerOff:
		return "is off (BMC: " + h.BMC + ")"
	case !begun && !h.Install.Complete && h.Trouble != "":
		return "first boot: " + h.Trouble
	}
	return h.Install.Doing()
}
