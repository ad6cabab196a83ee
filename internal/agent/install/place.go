package install

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// placePath exists once this host has taken the place of a lost one. From then on Pacemaker
// starts its etcd, and kubeadm leaves etcd alone.
const placePath = "/var/lib/holdfast/install/place"

// The pauses of a host that waits to be let in. The host that stays no longer counts a newcomer
// that has not asked for ten seconds. A bootstrap token lasts an hour.
const (
	placeInterval = time.Second
	prepareAnew   = 30 * time.Minute
)

// takePlace lets this host take the place of a lost control plane of two, if the configuration
// server says that it has to (docs/adr/0083). It prepares everything that etcd needs before
// this host enters Corosync's cluster, because Pacemaker starts etcd then.
func (r *run) takePlace(ctx context.Context) error {
	if host.Exists(placePath) {
		return nil
	}
	request, err := r.ownMachine()
	if err != nil {
		return err
	}
	var prepared time.Time
	var entry configserver.Entry
	err = r.poll(ctx, placeInterval, func(ctx context.Context) (bool, string, error) {
		var err error
		if entry, err = r.server.enter(ctx, request); err != nil || !entry.Needed {
			return err == nil, "", err
		}
		if r.Now().Sub(prepared).Abs() > prepareAnew {
			if err := r.prepare(ctx); err != nil {
				return false, "", err
			}
			prepared = r.Now()
			return false, entry.Waits, nil // the answer is too old by now: ask again
		}
		return entry.Waits == "", entry.Waits, nil
	})
	if err != nil || !entry.Needed {
		return err
	}
	return r.enter(ctx, entry)
}

// installationPath has a text that this installation chose once. A wipe takes it, and a new disk lacks it:
// by it the host that carries the plan for a third control plane sees that this machine was installed anew.
const installationPath = "/var/lib/holdfast/install/installation"

// ownInstallation returns that text.
func ownInstallation(root string) (string, error) {
	path := filepath.Join("/", root, installationPath)
	text, err := os.ReadFile(path)
	switch {
	case err == nil && len(text) > 0:
		return string(text), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	chosen := rand.Text()
	return chosen, host.WriteFileAtomic(path, []byte(chosen), state.DefaultFileMode)
}

// ownMachine returns the request of this host: its machine, address, architecture and installation.
func (r *run) ownMachine() ([]byte, error) {
	uuid, serial, err := fence.OwnIdentity()
	if err != nil {
		return nil, err
	}
	if len(r.facts.Addresses) == 0 {
		return nil, errors.New("this host knows no address of its own")
	}
	own, err := ownInstallation(r.root)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"machine": state.Machine{UUID: uuid, Serial: serial}, "address": r.facts.Addresses[0].String(), "arch": runtime.GOARCH, "installation": own,
	})
}

// prepare makes certificates, static pods and kubelet's configuration. kubelet then waits
// for this host's API server, which waits for etcd.
func (r *run) prepare(ctx context.Context) error {
	if err := r.systemctl(ctx, "start", renderhost.ContainerdUnit); err != nil {
		return err
	}
	if err := r.writeJoin(kubeadm.Progress{Resuming: true}); err != nil {
		return err
	}
	if err := r.writeAccess(ctx, kubeadm.Progress{}, false); err != nil {
		return err
	}
	if err := r.askAnew(ctx, kubeadm.Progress{}); err != nil {
		return err
	}
	if err := r.kubeadm(ctx, "join", "phase", "control-plane-prepare", "all", "--config", kubeadmConfig); err != nil {
		return err
	}
	return r.kubeadm(ctx, "join", "phase", "kubelet-start", "--config", kubeadmConfig)
}

// enter puts this host into Corosync's cluster, and then writes placePath: from then on etcd
// is Pacemaker's. A run that was cut off before that begins again.
func (r *run) enter(ctx context.Context, entry configserver.Entry) error {
	var in decide.Input
	if err := json.Unmarshal(entry.Input, &in); err != nil {
		return errors.New("the configuration server's answer is not the input of two hosts")
	}
	if err := in.Validate(decide.Auth); err != nil {
		return fmt.Errorf("the configuration server's answer: %w", err)
	}
	if err := twonode.NewHost(r.Log).Enter(ctx, in, entry.Conf); err != nil {
		return err
	}
	return host.WriteFileAtomic(placePath, nil, state.DefaultFileMode)
}

// enter asks to take the place of a lost host.
func (s *server) enter(ctx context.Context, request []byte) (configserver.Entry, error) {
	data, err := s.ask(ctx, "/hosts/", "/enter", request)
	if err != nil {
		return configserver.Entry{}, err
	}
	var entry configserver.Entry
	if err := json.Unmarshal(data, &entry); err != nil {
		return configserver.Entry{}, errors.New("the configuration server's answer is no entry")
	}
	return entry, nil
}
