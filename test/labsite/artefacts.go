package labsite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/test/labsite/load"
)

// looks are what is kept of each host after a failure, by name. Words that
// fail say so in the file.
var looks = map[string]string{
	"network":   "cat " + network.StatusPath,
	"addresses": "ip -br address; ip route; ip -6 route; nft list ruleset",
	"haproxy":   "curl -s http://127.0.0.1:29445/metrics | grep -E 'server_status|server_check'",
	"pods":      "crictl ps -a 2>/dev/null || ctr -n k8s.io containers list",
}

// keep writes the requests of all clients, what the hosts say, their journals,
// the objects that scenarios are about, and the lab's log.
func (c *Case) keep(ctx context.Context, histories map[string]load.History) {
	c.Logf("artefacts: %s", c.Dir)
	if err := os.MkdirAll(c.Dir, 0o750); err != nil {
		c.Error(err)
		return
	}
	for name, h := range histories {
		if err := h.Save(filepath.Join(c.Dir, "requests-"+strings.ReplaceAll(name, " ", "-")+".json")); err != nil {
			c.Error(err)
		}
	}
	since := c.began.Add(-30 * time.Second).UTC().Format("2006-01-02 15:04:05")
	hosts, err := c.Hosts(ctx)
	if err != nil {
		c.Error(err)
	}
	for _, h := range hosts {
		c.save(ctx, h, "journal", "journalctl --no-pager -o short-precise --utc --since '"+since+"'")
		for name, script := range looks {
			c.save(ctx, h, name, script)
		}
	}
	c.save(ctx, c.ControlPlanes()[0], "objects", "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 5s get "+
		"nodes,infrastructures.config.openshift.io,clusteroperators.config.openshift.io,"+
		"ingresscontrollers.operator.openshift.io,deployments,services,pods,events --all-namespaces -o wide")
	if log, err := os.ReadFile(c.Lab.LogPath()); err == nil {
		c.write("lab.log", log[min(int64(len(log)), c.log):])
	}
}

// lookWithin bounds each look into a host.
const lookWithin = 20 * time.Second

func (c *Case) save(ctx context.Context, host, name, script string) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	out, err := c.Sh(ctx, host, script)
	if err != nil {
		out += fmt.Sprintf("\n%v\n", err)
	}
	c.write(host+"-"+name+".txt", []byte(out))
}

func (c *Case) write(name string, data []byte) {
	if err := os.WriteFile(filepath.Join(c.Dir, name), data, 0o600); err != nil {
		c.Error(err)
	}
}
