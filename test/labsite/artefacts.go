package labsite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite/load"
)

// looks are the commands whose output is stored for each host after a failure,
// by name. The file also records a failed command.
var looks = map[string]string{
	"network":   "cat " + network.StatusPath,
	"addresses": "ip -br address; ip route; ip -6 route; nft list ruleset",
	"haproxy":   "curl -s http://127.0.0.1:29445/metrics | grep -E 'server_status|server_check'",
	"etcd-log":  "tail -qn 5000 /var/lib/etcd/log/etcd.log /var/log/pods/kube-system_etcd-*/etcd/*.log 2>/dev/null | grep -E 'slow fdatasync|elected leader|lost leader|new election|apply request took too long'; true",
	"pods":      "crictl ps -a 2>/dev/null || ctr -n k8s.io containers list",
}

// looksAtPairs are the further commands for each of two control planes.
var looksAtPairs = map[string]string{
	"pacemaker": "crm_mon -1 -A -f -o -n 2>&1; pcs status --full 2>&1; corosync-quorumtool 2>&1; true",
	"report":    "curl -s --unix-socket " + state.EtcdSocketPath + " http://agent/report",
	"etcd":      "podman --cgroup-manager=cgroupfs logs --tail 500 etcd 2>&1; true",
}

// keep stores the requests of all clients, and what Site.Keep stores.
func (c *Case) keep(ctx context.Context, histories map[string]load.History) {
	c.Logf("artefacts: %s", c.Dir)
	if err := c.Keep(ctx, c.Dir, c.began.Add(-30*time.Second)); err != nil {
		c.Error(err)
	}
	for name, h := range histories {
		if err := h.Save(filepath.Join(c.Dir, "requests-"+strings.ReplaceAll(name, " ", "-")+".json")); err != nil {
			c.Error(err)
		}
	}
	if err := c.KeepLog(c.Dir, c.log); err != nil {
		c.Error(err)
	}
}

// KeepLog writes the lab's log from an offset on into a directory.
func (s *Site) KeepLog(dir string, from int64) error {
	log, err := os.ReadFile(s.Lab.LogPath())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "lab.log"), log[min(int64(len(log)), from):], 0o600)
}

// Keep writes into a directory the status of the hosts, their journals since a
// time, and the objects that matter to scenarios.
func (s *Site) Keep(ctx context.Context, dir string, since time.Time) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	hosts, err := s.Hosts(ctx)
	errs := []error{err}
	if pair := s.ControlPlanes(); len(pair) == 2 {
		for _, h := range pair {
			for name, script := range looksAtPairs {
				errs = append(errs, s.keepOutput(ctx, dir, h, name, script))
			}
		}
	}
	for _, h := range hosts {
		errs = append(errs, s.keepOutput(ctx, dir, h, "journal",
			"journalctl --no-pager -o short-precise --utc --since '"+since.UTC().Format("2006-01-02 15:04:05")+"'"))
		for name, script := range looks {
			errs = append(errs, s.keepOutput(ctx, dir, h, name, script))
		}
	}
	return errors.Join(append(errs, s.keepOutput(ctx, dir, s.ControlPlanes()[0], "objects",
		"kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 5s get "+
			"nodes,infrastructures.config.openshift.io,clusteroperators.config.openshift.io,"+
			"ingresscontrollers.operator.openshift.io,deployments,services,pods,events --all-namespaces -o wide"))...)
}

// lookWithin bounds each command on a host.
const lookWithin = 20 * time.Second

// keepOutput stores the output of a script on a host. A failure is stored, too.
func (s *Site) keepOutput(ctx context.Context, dir, host, name, script string) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	out, err := s.Sh(ctx, host, script)
	if err != nil {
		out += fmt.Sprintf("\n%v\n", err)
	}
	return os.WriteFile(filepath.Join(dir, host+"-"+name+".txt"), []byte(out), 0o600)
}
