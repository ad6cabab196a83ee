package twonode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// A site that shrinks from two control planes to one (docs/adr/0096) has these steps on the host
// that stays, once its peer was retired. Each can be done again.

const kubeletUnit = "kubelet.service"

// PutPod writes kubelet's file of etcd beside the folder that kubelet reads.
func (h *Host) PutPod(pod []byte) error { return h.withoutSecrets().write(keptPod, pod, 0o600) }

// PodReady reports whether kubelet's file of etcd is there: in its folder, or this one beside it.
func (h *Host) PodReady(pod []byte) (bool, error) {
	if there, err := h.exists(staticPod); err != nil || there {
		return there, err
	}
	have, err := h.read(keptPod)
	return bytes.Equal(have, pod), err
}

// BootKubelet has kubelet start at boot, whatever Pacemaker does.
func (h *Host) BootKubelet(ctx context.Context) error {
	quiet := h.withoutSecrets()
	if err := quiet.do(ctx, "it starts at boot without Pacemaker", host.Command("systemctl", "enable", "--quiet", kubeletUnit)); err != nil {
		return err
	}
	return quiet.settle(wants)
}

// KubeletBoots reports whether kubelet starts at boot without Pacemaker.
func (h *Host) KubeletBoots(ctx context.Context) bool { return h.enabled(ctx, kubeletUnit) }

func (h *Host) enabled(ctx context.Context, unit string) bool {
	_, err := h.Run(ctx, host.Command("systemctl", "is-enabled", "--quiet", unit))
	return err == nil
}

// manages returns an error if Pacemaker, which has etcd, is in maintenance: it would stop etcd only
// once a person ends that, whenever that is.
func (h *Host) manages(ctx context.Context) error {
	if _, held, err := h.holder(); err != nil || !held {
		return err
	}
	text, err := h.Run(ctx, pacemaker.Configuration())
	if err != nil {
		return err
	}
	cib, err := twonode.ParseCIB(text)
	if err == nil && cib.InMaintenance() {
		err = fmt.Errorf("in maintenance Pacemaker does not stop etcd: sudo %s", pacemaker.Manage())
	}
	return err
}

// StopEtcd has Pacemaker stop etcd, and waits until nobody holds its data. Once the etcd keeper is
// to stop it, an etcd that waits for its clients is killed, as in TakeEtcd: it is the only member.
// The API server runs on: kubelet starts one that ended a second time only after a pause of its own.
func (h *Host) StopEtcd(ctx context.Context) error {
	if err := h.manages(ctx); err != nil {
		return err
	}
	quiet := h.withoutSecrets()
	if err := quiet.do(ctx, "kubelet starts it next", pacemaker.Disable(twonode.EtcdClone)); err != nil {
		return err
	}
	var etcd ending // nobody has asked it yet: the keeper would start it again
	return quiet.untilEvery(ctx, pollAway, "etcd of Pacemaker has ended", func(ctx context.Context) (string, error) {
		pid, held, err := h.holder()
		if err != nil || !held {
			return "", err
		}
		if etcd.asked.IsZero() {
			if h.Listens(ctx, etcdServer) && !h.toStop(ctx) {
				return "Pacemaker has not asked the etcd keeper to stop it", nil
			}
			etcd.asked = h.Now()
		}
		return etcd.look(ctx, quiet, pid)
	})
}

// reportTime bounds a question to the etcd keeper. While it stops etcd it answers nobody: seconds, in
// which etcd has closed its port already.
const reportTime = 500 * time.Millisecond

// toStop reports whether the etcd keeper says that Pacemaker wants etcd stopped.
func (h *Host) toStop(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	r, err := h.Report(ctx)
	return err == nil && r.Wish == state.EtcdStopped
}

// GivePod moves kubelet's file of etcd into the folder that kubelet reads. It ends an API server
// that listens.
//
// kubelet tells the API of a new static pod, and of itself after a start, before it starts the pod.
// An API server without etcd answers neither: kubelet waited 34 s for it in the lab, and after a
// start of its own for ever (2026-11-26). Where nobody listens it goes on at once; it starts the
// API server, too.
func (h *Host) GivePod(ctx context.Context) error {
	quiet := h.withoutSecrets()
	if there, err := h.exists(staticPod); err != nil {
		return err
	} else if !there {
		if err := quiet.move(keptPod, staticPod); err != nil {
			return err
		}
	}
	if !h.Listens(ctx, apiServer) {
		return nil
	}
	return quiet.endAPIServer(ctx)
}

// apiServer is where this host's API server listens.
const apiServer = "127.0.0.1:6443"

// noProcess is the exit code of pkill where no process has the name.
const noProcess = 1

func (h *Host) endAPIServer(ctx context.Context) error {
	err := h.do(ctx, "without etcd it would keep kubelet waiting; kubelet starts it again", host.Command("pkill", "--signal", "KILL", "--exact", "kube-apiserver"))
	if run, failed := errors.AsType[*host.RunError](err); failed && run.ExitCode == noProcess {
		return nil
	}
	return err
}

// RingRuns reports whether Corosync or Pacemaker runs, starts at boot, or has a cluster.
func (h *Host) RingRuns(ctx context.Context) (bool, error) {
	if slices.ContainsFunc(units, func(u string) bool { return h.enabled(ctx, u) }) || len(h.running(ctx)) > 0 {
		return true, nil
	}
	return h.exists(corosyncConf)
}

// EndRing ends Corosync and Pacemaker for good. In maintenance Pacemaker stops nothing of what it
// started, so kubelet and its pods run on.
func (h *Host) EndRing(ctx context.Context) error {
	quiet := h.withoutSecrets()
	names := append(slices.Clone(units), renderhost.PcsdUnit)
	if err := quiet.do(ctx, "this host is in no cluster of Corosync any more", host.Command("systemctl", append([]string{"disable", "--quiet"}, names...)...)); err != nil {
		return err
	}
	if err := quiet.settle(wants); err != nil {
		return err
	}
	if slices.Contains(h.running(ctx), units[1]) {
		if err := quiet.do(ctx, "Pacemaker leaves everything running when it ends", pacemaker.Maintain()); err != nil {
			return err
		}
	}
	if err := quiet.do(ctx, "remove the cluster of one", pacemaker.Destroy()); err != nil {
		return err
	}
	if err := quiet.discard(kubeletOrder); err != nil {
		return err
	}
	return quiet.do(ctx, "systemd stops kubelet in a shutdown", host.Command("systemctl", "daemon-reload"))
}

// pairFiles are the files by which a host is one of two. The record is the last one: while it is
// there the etcd keeper would not take the host for a new one.
func pairFiles() []string {
	return []string{
		state.FencingPendingDir, state.FencingDir, KeptCIB, keptCorosync, keptKey, state.EtcdPodManifest, state.EtcdParametersPath, state.EtcdReservePath, state.EtcdRetiredPath, state.EtcdThirdPath, state.EtcdRecordPath,
	}
}

// Paired reports whether this host has a file by which it is one of two.
func (h *Host) Paired() (bool, error) {
	for _, path := range pairFiles() {
		if there, err := h.exists(path); err != nil || there {
			return there, err
		}
	}
	return false, nil
}

// EndPair stops the etcd keeper for good, and removes the files by which this host is one of two.
// History and events stay.
func (h *Host) EndPair(ctx context.Context) error {
	quiet := h.withoutSecrets()
	if err := quiet.do(ctx, "kubelet has etcd", host.Command("systemctl", "disable", "--now", "--quiet", renderhost.EtcdUnit)); err != nil {
		return err
	}
	if err := quiet.settle(wants); err != nil {
		return err
	}
	for _, path := range pairFiles() {
		quiet.say("remove %s", path)
		if h.DryRun {
			continue
		}
		if err := os.RemoveAll(h.path(path)); err != nil {
			return err
		}
		if err := host.SyncDir(filepath.Dir(h.path(path))); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
