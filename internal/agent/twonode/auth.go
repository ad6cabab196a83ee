package twonode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
)

// Files of pcs and Corosync.
const (
	// usersFile holds the tokens that pcsd accepts.
	usersFile    = "/var/lib/pcsd/pcs_users.conf"
	corosyncConf = corosync.Path
	// CorosyncKey is the key with which the two hosts sign Corosync's packets.
	CorosyncKey = "/etc/corosync/authkey"
	accounts    = "/etc/passwd"
	// workConf is the file in which pcs makes a corosync.conf before it is put in
	// place.
	workConf = "/run/holdfast/two-node-corosync.conf"
)

// account is the user that Pacemaker runs as.
const account = "hacluster"

// units are the cluster's services, in the order of their start.
var units = []string{"corosync.service", "pacemaker.service"}

// auth makes this host one of the two: it gets the key by which they know each
// other and the same corosync.conf as the peer, and both services run now and
// after each boot. The hosts tell each other nothing of it: each is given the
// secret itself, and makes the same of it. The peer may not be there yet.
func (h *Host) auth(ctx context.Context, in twonode.Input) error {
	if err := h.checkAccount(); err != nil {
		return err
	}
	have, err := h.corosync()
	if err != nil {
		return err
	}
	example := have.Example()
	if example { // a package's example, which it starts too: nobody's cluster
		have = twonode.Corosync{}
	}
	steps, err := twonode.CorosyncSteps(have, twonode.Wanted(in).Corosync)
	if err != nil {
		return err
	}
	if err := h.silencePCSD(ctx, in.Token); err != nil {
		return err
	}
	if have.Name != "" {
		err = h.stay(ctx, steps)
	} else {
		err = h.enter(ctx, in, steps, example)
	}
	if err != nil {
		return err
	}
	return h.run(ctx)
}

func (h *Host) checkAccount() error {
	text, err := os.ReadFile(h.path(accounts))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, account+":") {
			return nil
		}
	}
	return fmt.Errorf("this host has no account %s: install the packages pacemaker and pcs", account)
}

// silencePCSD stops pcsd, by which an earlier release spoke to the peer, and
// removes the two hosts' secret from its tokens: pcs verifies no certificate, so
// whoever was between the hosts knows the secret. pcs itself works on its host
// without pcsd.
func (h *Host) silencePCSD(ctx context.Context, token string) error {
	if err := h.do(ctx, "not needed, and it would listen on all addresses", host.Command("systemctl", "disable", "--now", "--quiet", "pcsd.service")); err != nil {
		return err
	}
	text, err := h.read(usersFile)
	if err != nil || len(text) == 0 {
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		h.say("%s cannot be parsed and is left unchanged: %v", usersFile, err)
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(list), func(entry json.RawMessage) bool {
		var e struct {
			Token string `json:"token"`
		}
		return json.Unmarshal(entry, &e) == nil && (e.Token == encoded(token) || e.Token == token)
	})
	if len(others) == len(list) {
		return nil
	}
	if text, err = json.MarshalIndent(others, "", "  "); err != nil {
		return err
	}
	return h.write(usersFile, text, 0o600)
}

// stay updates the corosync.conf of a host that is in the cluster.
func (h *Host) stay(ctx context.Context, steps []twonode.Command) error {
	there, err := h.exists(CorosyncKey)
	if err == nil && !there {
		err = fmt.Errorf("%s names the cluster, but %s is missing: copy the missing file from the other host; nothing was changed", corosyncConf, CorosyncKey)
	}
	if err != nil {
		return err
	}
	return h.change(ctx, steps)
}

// enter puts this host into the cluster. It writes last the file that says so.
func (h *Host) enter(ctx context.Context, in twonode.Input, steps []twonode.Command, example bool) error {
	if err := h.clean(ctx, example); err != nil {
		return err
	}
	if err := h.write(CorosyncKey, twonode.CorosyncKey(in), 0o400); err != nil {
		return err
	}
	return h.make(ctx, steps, asMade)
}

// clean removes what an earlier cluster, an example, or a step that was cut off
// left. Services that run without a corosync.conf belong to somebody: it refuses.
func (h *Host) clean(ctx context.Context, example bool) error {
	if running := h.running(ctx); !example && len(running) > 0 {
		return fmt.Errorf("%s runs, but %s is missing: copy the missing file from the other host, or stop the service; nothing was changed", strings.Join(running, ", "), corosyncConf)
	}
	return h.do(ctx, "remove what an earlier cluster left", pacemaker.Destroy())
}

// running returns the cluster's services that run, and none in a dry run.
func (h *Host) running(ctx context.Context) []string {
	var out []string
	for _, u := range units {
		if h.DryRun {
			break
		}
		if _, err := h.Run(ctx, host.Command("systemctl", "is-active", "--quiet", u)); err == nil {
			out = append(out, u)
		}
	}
	return out
}

// asMade leaves a file as pcs made it.
func asMade(conf []byte) ([]byte, error) { return conf, nil }

// make lets pcs make corosync.conf, changes it, and puts it in place whole.
func (h *Host) make(ctx context.Context, steps []twonode.Command, change func([]byte) ([]byte, error)) error {
	if err := h.discard(workConf); err != nil { // pcs refuses to overwrite one
		return err
	}
	if !h.DryRun {
		if err := os.MkdirAll(filepath.Dir(h.path(workConf)), 0o755); err != nil {
			return err
		}
	}
	return h.edit(ctx, steps, change)
}

// change lets pcs change a copy of corosync.conf, puts that in place, and makes
// Corosync read it on each host whose file is new.
func (h *Host) change(ctx context.Context, steps []twonode.Command) error {
	if len(steps) == 0 {
		return nil
	}
	text, err := h.read(corosyncConf)
	if err != nil {
		return err
	}
	if !h.DryRun {
		if err := host.WriteFileAtomic(h.path(workConf), text, 0o600); err != nil {
			return err
		}
	}
	if err := h.edit(ctx, steps, asMade); err != nil {
		return err
	}
	if !h.DryRun && !slices.Contains(h.running(ctx), units[0]) {
		return nil // it reads the file when it starts
	}
	return h.do(ctx, "Corosync reads the new file", pacemaker.Reload())
}

// edit runs pcs' commands on the work file, changes it, and puts it in place. pcs talks to
// nobody if it is given a file.
func (h *Host) edit(ctx context.Context, steps []twonode.Command, change func([]byte) ([]byte, error)) error {
	for _, s := range steps {
		c, err := pacemaker.EditCorosync(h.path(workConf), s.Args...)
		if err != nil {
			return err
		}
		if err := h.do(ctx, s.Why, c); err != nil {
			return err
		}
	}
	if h.DryRun {
		h.say("write %s (mode 0644)", corosyncConf)
		return nil
	}
	text, err := os.ReadFile(h.path(workConf))
	if err != nil {
		return err
	}
	if text, err = change(text); err != nil {
		return err
	}
	made, err := corosync.Parse(text)
	if err != nil {
		return fmt.Errorf("pcs made a corosync.conf that cannot be parsed: %w", err)
	}
	if lacks := twonode.CorosyncOf(made).Plain(); lacks != "" {
		return fmt.Errorf("pcs made a corosync.conf without %s; nothing was changed", lacks)
	}
	return errors.Join(h.write(corosyncConf, text, 0o644), h.discard(workConf))
}

// run makes the cluster's services start at each boot, and now.
func (h *Host) run(ctx context.Context) error {
	if err := h.meet(ctx); err != nil {
		return err
	}
	return h.do(ctx, "this host waits for its peer or joins it", host.Command("systemctl", append([]string{"start"}, units...)...))
}

func (h *Host) corosync() (twonode.Corosync, error) {
	text, err := h.read(corosyncConf)
	if err != nil {
		return twonode.Corosync{}, err
	}
	conf, err := corosync.Parse(text)
	return twonode.CorosyncOf(conf), err
}

// discard removes a file of ours, if it is there.
func (h *Host) discard(path string) error {
	if h.DryRun {
		return nil
	}
	return host.RemoveFile(h.path(path))
}
