package lab_test

import (
	"errors"
	"strings"
	"time"
)

// aWorkerGoesAndComesBack takes a worker out, sees that its kubelet cannot bring it
// back, wipes it, sees that nothing of the cluster is left on it, and adds it again
// under its name with a join file that a control plane makes.
func (c cluster) aWorkerGoesAndComesBack() {
	c.Helper()
	const host, plane = "worker-1", "cp-1"
	if out, err := c.on(host, "/usr/lib/holdfast/holdfast-agent", "wipe", "--yes"); err == nil || !strings.Contains(err.Error()+out, "holdfast host remove") {
		c.Fatalf("a host that its cluster counts on is wiped: %v, %s", err, out)
	}
	c.must("host", "remove", host, "--lab", c.name, "--yes", "--accept-loss")
	if _, err := c.on(host, "systemctl", "restart", "kubelet", "holdfast-agent"); err != nil {
		c.Fatal(err)
	}
	c.pause(time.Minute)
	if out, err := c.kubectl("get", "node", host); err == nil {
		c.Fatalf("the host that was taken out is a node again: %s", out)
	}
	if _, err := c.on(host, "/usr/lib/holdfast/holdfast-agent", "wipe", "--yes"); err != nil {
		c.Fatal(err)
	}
	for _, left := range []string{"/etc/kubernetes", "/var/lib/kubelet", "/etc/holdfast/site.json", "/var/lib/holdfast-wipe.json", "/etc/systemd/system/kubelet.service"} {
		if _, err := c.on(host, "test", "!", "-e", left); err != nil {
			c.Errorf("%s is left: %v", left, err)
		}
	}
	c.eventually(2*time.Minute, "the host boots", func() error {
		_, err := c.on(host, "systemctl", "is-system-running", "--wait")
		return err
	})
	file, err := c.on(plane, "holdfast", "host", "add", host, "--stdout", "--ttl", "1h")
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.on(host, "sh", "-c", "cat >/run/join.ign <<'END'\n"+file+"\nEND\n/usr/lib/holdfast/holdfast-agent apply --ignition /run/join.ign --start; rm /run/join.ign"); err != nil {
		c.Fatal(err)
	}
	c.eventually(15*time.Minute, host+" is a ready node again", func() error {
		out, err := c.kubectl("get", "node", host, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
		if err == nil && out != "True" {
			err = errors.New("Ready is " + out)
		}
		return err
	})
}
