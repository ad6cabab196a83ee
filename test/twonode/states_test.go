package twonode_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

var states = flag.String("states", "", "with -witness, a folder for Pacemaker's state at each step of each trial, of which the corpus (test/corpus/pacemaker) takes what it lacks")

// viewOf holds the commands for a view of the corpus, by the name of the file.
var viewOf = map[string]string{
	"crm_mon.xml":   "crm_mon --one-shot --inactive --fence-history=3 --output-as=xml",
	"corosync.conf": "cat /etc/corosync/corosync.conf",
	"etcd.json":     "curl --silent --fail --unix-socket /run/holdfast/etcd/agent.sock http://agent/report",
}

// keepStates stores the output of both hosts whenever it has changed, until the
// trial ends.
func (tr *trial) keepStates() {
	if *states == "" || tr.seen == nil {
		return
	}
	ctx, end := context.WithCancel(tr.Context())
	var done sync.WaitGroup
	done.Go(func() {
		was := ""
		for n := 0; ctx.Err() == nil; pause(ctx, 4*sampleEvery) {
			if now := fmt.Sprint(tr.seen.api.Current().Revision, tr.sampler.length()); now != was {
				was, n = now, n+1
				tr.keepState(ctx, fmt.Sprintf("%s-%02d-%s", slug(tr.result.Scenario), n, time.Now().UTC().Format("150405.000")))
			}
		}
	})
	tr.Cleanup(func() {
		end()
		done.Wait()
	})
}

func (tr *trial) keepState(ctx context.Context, name string) {
	var done sync.WaitGroup
	defer done.Wait()
	for _, h := range tr.hosts() {
		done.Go(func() {
			dir := filepath.Join(*states, name, h)
			for file, command := range viewOf {
				out, err := tr.Lab.Output(ctx, tr.Power, h, "sh", "-c", command)
				if err != nil && len(out) == 0 {
					continue // it is off, or gives no output
				}
				if err := os.MkdirAll(dir, 0o750); err == nil {
					_ = os.WriteFile(filepath.Join(dir, file), out, 0o600)
				}
			}
		})
	}
}

func (p *sampler) length() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list)
}
