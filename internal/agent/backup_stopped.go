package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/catalogue"
	"github.com/holdfast/holdfast/internal/adapter/backup/snapshot"
	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/takebackup"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// stoppedCopy is where the copy of the data of a stopped etcd lies while it is read.
	stoppedCopy = "/var/lib/holdfast/stopped-etcd"
	// copyName is the name of the member that the copy starts as. Nobody asks it for its address.
	copyName = "copy"
)

// A person types these commands to stop this host's etcd. The agent puts a missing manifest back
// within seconds, unless the list of files that stay away names it.
const (
	etcdStays = "echo /etc/kubernetes/manifests/etcd.yaml | sudo tee -a " + deleted.LeavePath
	etcdStops = "sudo mv /etc/kubernetes/manifests/etcd.yaml /root/etcd.yaml"

	whileEtcdRuns = "etcd of this host runs. If it serves, take a usual backup: holdfast backup now. " +
		"If all others are lost for good, stop it first: " + etcdStays + " && " + etcdStops + ", and wait some seconds"
)

// backupStopped takes a backup of the data of this host's etcd, which does not run: of a control plane
// that has lost all others, and whose etcd serves nobody any more.
func backupStopped(ctx context.Context, streams command.Streams, s *site.Site) (err error) {
	if s.Topology().Fencing {
		return refused("this site has two control planes, of which one goes on without the other: 'sudo holdfast explain' says what this one waits for")
	}
	name, err := host.Name()
	if err != nil {
		return err
	}
	copied, err := etcd.OpenStopped(ctx, etcd.Scratch{
		Program: filepath.Join(filepath.Dir(snapshot.Program), "etcd"), DataDir: state.EtcdDataDir,
		Name: copyName, PeerURL: "http://" + copyName + ".invalid:2380", Log: io.Discard,
	}, stoppedCopy)
	defer func() { err = errors.Join(err, os.RemoveAll(stoppedCopy)) }()
	if errors.Is(err, etcd.ErrRuns) {
		return refused(whileEtcdRuns)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	now := time.Now()
	req := backup.Request{ID: backup.NewID(name, now), Reason: backup.OfStopped, Site: s.Domain(), Host: name}
	run := takebackup.New(copied.Client(), thisRelease)
	run.Snapshot.Line = state.KeptFree // what kubelet of the site wants beside that is less than the last data
	run.Say = progressTo(streams.Err)
	if _, err := run.Do(ctx, req); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "took backup %s: %s\nCopy this file away from this host. It holds every Secret of the site, and is not encrypted.\n",
		req.ID, catalogue.Catalogue{Dir: backup.Dir}.Archive(req.ID))
	return err
}

func refused(why string) error {
	return &command.Coded{Code: command.ExitRefused, Err: errors.New("refused, nothing was changed: " + why)}
}

// progressTo returns what writes each phase of a run once.
func progressTo(out io.Writer) func(backup.State) {
	var last backup.Phase
	return func(s backup.State) {
		if s.Phase != last && !s.Ended {
			last = s.Phase
			_, _ = fmt.Fprintln(out, s.Phase.Words())
		}
	}
}
