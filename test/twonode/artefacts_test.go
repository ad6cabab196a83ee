package twonode_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/state"
	"github.com/holdfast/holdfast/test/twonode/client"
	"github.com/holdfast/holdfast/test/twonode/evidence"
)

// finish ends what runs and, after a failure, keeps everything that tells why.
func (tr *trial) finish() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), 2*time.Minute)
	defer cancel()
	for _, l := range tr.loads {
		_ = l.Stop(ctx) // it failed already
	}
	if tr.sampler != nil {
		tr.sampler.stop()
	}
	tr.blind()
	tr.keepDecisions()
	tr.result.Failed = tr.Failed()
	if !tr.at.IsZero() {
		if err := evidence.Append(filepath.Join(*output, "results.jsonl"), tr.result); err != nil {
			tr.Error(err)
		}
	}
	if tr.Failed() || slow(tr.result) {
		tr.keepArtefacts(ctx)
	}
	if tr.Failed() {
		if _, err := tr.power.Clear(ctx, lab.ClearRequest{}); err != nil {
			tr.Error(err)
		}
	}
}

// slow is an outage that was longer than a host that cannot be reached may cost: it
// is worth to know why, also where the scenario allows it.
func slow(r evidence.Trial) bool { return r.Held != nil && *r.Held > 5 }

// keepDecisions keeps what both hosts decided, also of a trial that went well:
// it tells where the time went.
func (tr *trial) keepDecisions() {
	if err := os.MkdirAll(tr.artefact, 0o750); err != nil {
		tr.Error(err)
		return
	}
	if tr.sampler == nil {
		return
	}
	if err := tr.sampler.save(filepath.Join(tr.artefact, "decisions.txt")); err != nil {
		tr.Error(err)
	}
}

// keepArtefacts writes histories, the decisions of both hosts, their journals
// and the lab's log.
func (tr *trial) keepArtefacts(ctx context.Context) {
	tr.Logf("artefacts: %s", tr.artefact)
	for i, r := range tr.recorders() {
		if r == nil {
			continue
		}
		if err := client.Save(filepath.Join(tr.artefact, [2]string{"etcd", "api"}[i]), r.Copy()); err != nil {
			tr.Error(err)
		}
	}
	since := tr.began.Add(-30 * time.Second).UTC().Format("2006-01-02 15:04:05")
	for _, h := range tr.hosts() {
		tr.saveOutput(ctx, h, "journal", "journalctl --no-pager -o short-precise --utc --since '"+since+"'")
		tr.saveOutput(ctx, h, "pacemaker", "crm_mon -1 -A -f -o -n 2>&1; pcs status --full 2>&1; corosync-quorumtool 2>&1; true")
		tr.saveOutput(ctx, h, "report", "curl -s --unix-socket "+state.EtcdSocketPath+" http://agent/report")
		tr.saveOutput(ctx, h, "etcd", "podman --cgroup-manager=cgroupfs logs --tail 500 etcd 2>&1; cat "+state.EtcdRecordPath)
	}
	if log, err := os.ReadFile(tr.lab.LogPath()); err == nil {
		_ = os.WriteFile(filepath.Join(tr.artefact, "lab.log"), log[min(int64(len(log)), tr.log):], 0o600)
	}
}

func (tr *trial) saveOutput(ctx context.Context, host, name, script string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := tr.sh(ctx, host, script)
	if err != nil {
		out += fmt.Sprintf("\n%v", err)
	}
	_ = os.WriteFile(filepath.Join(tr.artefact, host+"-"+name+".txt"), []byte(out), 0o600)
}
