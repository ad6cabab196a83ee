package twonode_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/twonode/client"
	"github.com/holdfast/holdfast/test/twonode/evidence"
)

// finish ends everything that runs and, after a failure, stores all evidence of
// the reason.
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
		if _, err := tr.Power.Clear(ctx, lab.ClearRequest{}); err != nil {
			tr.Error(err)
		}
	}
}

// slow reports whether an outage was longer than an unreachable host may cost.
// Its reason is worth knowing, even if the scenario allows it.
func slow(r evidence.Trial) bool { return r.Held != nil && *r.Held > 5 }

// keepDecisions stores the decisions of both hosts, even of a trial that
// passed: they show where the time went.
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

// keepArtefacts stores histories, the decisions of both hosts, their journals
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
	if err := errors.Join(tr.Keep(ctx, tr.artefact, tr.began.Add(-30*time.Second)), tr.KeepLog(tr.artefact, tr.log)); err != nil {
		tr.Error(err)
	}
}
