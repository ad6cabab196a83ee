package lab_test

import (
	"errors"
	"fmt"
	"path/filepath"
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
	config := c.workersHaveAFile("worker-2")
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
	c.hadItsFirstConfiguration(host, config)
}

// firstFile is that of testdata/first.yaml.
const firstFile = "/etc/motd.d/60-first"

// workersHaveAFile wishes a file of all workers, and waits until their pool counts it as
// what its hosts have: hosts that join get that. It returns the configuration's name. left
// is a worker of the pool.
func (c cluster) workersHaveAFile(left string) string {
	c.Helper()
	manifest, err := filepath.Abs("testdata/first.yaml")
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.kubectl("apply", "--server-side", "-f", manifest); err != nil {
		c.Fatal(err)
	}
	config := ""
	c.eventually(5*time.Minute, "the workers have the file", func() error {
		if _, err := c.on(left, "test", "-e", firstFile); err != nil {
			return err
		}
		out, err := c.kubectl("get", "machineconfigpool", "worker", "-o", "jsonpath={.spec.configuration.name} {.status.configuration.name} {.status.conditions[?(@.type=='Updated')].status}")
		if err != nil {
			return err
		}
		words := strings.Fields(out)
		if len(words) != 3 || words[0] != words[1] || words[2] != "True" {
			return fmt.Errorf("the pool is to have, has, and is whole: %s", out)
		}
		config = words[1]
		return nil
	})
	return config
}

// hadItsFirstConfiguration checks that a host that has joined had its pool's configuration
// before its kubelet started, and that its agent brought it there.
func (c cluster) hadItsFirstConfiguration(host, config string) {
	c.Helper()
	if out, err := c.on(host, "cat", firstFile); err != nil || strings.TrimSpace(out) != "of the workers" {
		c.Errorf("%s of %s is %q: %v", firstFile, host, out, err)
	}
	if _, err := c.on(host, "test", firstFile, "-ot", "/etc/kubernetes/kubelet.conf"); err != nil {
		c.Errorf("%s got %s after it had joined: %v", host, firstFile, err)
	}
	journal, err := c.on(host, "journalctl", "--no-pager", "--output=cat", "--unit=holdfast-agent")
	if err != nil || !strings.Contains(journal, "on the way to "+config) {
		c.Errorf("the agent of %s does not say that it took the host to %s: %v\n%s", host, config, err, tail(journal))
	}
	c.eventually(3*time.Minute, host+" says that it has its configuration", func() error {
		out, err := c.kubectl("get", "node", host, "-o", `jsonpath={.metadata.annotations.machineconfiguration\.openshift\.io/currentConfig}`)
		if err == nil && out != config {
			err = fmt.Errorf("it says %q, want %s", out, config)
		}
		return err
	})
}
