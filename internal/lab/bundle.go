package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// collectors holds the commands whose output makes up a host's logs.
var collectors = []struct{ file, script string }{
	{"journal.log", "journalctl --no-pager --output short-precise --lines 20000"},
	{"units.txt", "systemctl --no-pager list-units --all; systemctl --no-pager --failed"},
	{"network.txt", "ip addr; ip route; ip -6 route; nft list ruleset; ss -tlnp"},
	{"containers.txt", "ctr -n k8s.io containers list; ctr -n k8s.io tasks list"},
	{"pods.log", "for f in /var/log/pods/*/*/*.log; do echo \"== $f\"; tail -n 400 \"$f\"; done"},
	{"cluster.txt", "crm_mon -1 2>&1 | head -n 200"},
	{"progress.json", "cat /var/lib/holdfast/install/progress.json"},
	{"files.txt", "ls -laR /etc/kubernetes /etc/holdfast /var/lib/holdfast"},
}

// collectPatience bounds the collection from one host.
const collectPatience = 30 * time.Second

// Collect writes the logs of all hosts, without their secrets, into a new
// directory of the lab and returns it with the likely reason of the trouble.
func (b *Lab) Collect(ctx context.Context, c *Client) (dir, reason string, err error) {
	hosts, err := b.Progress(ctx, c)
	if err != nil {
		return "", "", err
	}
	dir = filepath.Join(b.file(logsDir), time.Now().UTC().Format("20060102T150405Z"))
	redact := b.redactor()
	var errs []error
	for _, h := range hosts {
		if h.PID != 0 {
			errs = append(errs, collectHost(ctx, filepath.Join(dir, h.Name), h.PID, redact))
		}
	}
	daemon, readErr := os.ReadFile(b.file(daemonLog))
	errs = append(errs, readErr, host.WriteFileAtomic(filepath.Join(dir, daemonLog), []byte(redact(string(daemon))), 0o600))
	return dir, likelyReason(b.awaited(hosts)), errors.Join(errs...)
}

func collectHost(ctx context.Context, dir string, pid int, redact func(string) string) error {
	ctx, cancel := context.WithTimeout(ctx, collectPatience)
	defer cancel()
	var errs []error
	for _, c := range collectors {
		out, err := output(ctx, pid, "sh", "-c", c.script)
		text := redact(string(out))
		if err != nil {
			text += "\n" + redact(err.Error()) + "\n"
		}
		errs = append(errs, host.WriteFileAtomic(filepath.Join(dir, c.file), []byte(text), 0o600))
	}
	return errors.Join(errs...)
}

// secretShapes match the forms that secrets have in a log.
var secretShapes = []*regexp.Regexp{
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`),
	regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), // a bootstrap token
	regexp.MustCompile(`(?i)((?:bearer|basic) )[a-z0-9._~+/=-]{16,}`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9._-]{10,}`), // a JSON web token
	regexp.MustCompile(`(?i)((?:password|passwd|secret|token|certificate-?key)"?\s*[:=]\s*"?)[^\s",]{6,}`),
}

// redactor returns a function that removes the lab's passwords, and everything
// that looks like a secret, from a text.
func (b *Lab) redactor() func(string) string {
	var known []string
	for _, h := range b.Layout.Hosts {
		known = append(known, h.BMC.Password, "<password>")
	}
	passwords := strings.NewReplacer(known...)
	return func(text string) string {
		text = passwords.Replace(text)
		for _, shape := range secretShapes {
			text = shape.ReplaceAllString(text, "${1}<redacted>")
		}
		return text
	}
}

// likelyReason names what most likely holds up an installation. A host that
// reports an error comes first; the rendezvous host comes before the others,
// because they wait for it. Next comes a host that the others cannot see.
func likelyReason(hosts []HostProgress) string {
	for _, h := range hosts {
		if h.Install.Error != "" {
			step, _ := h.Install.Current()
			return fmt.Sprintf("%s fails at %s: %s", h.Name, step.Name, h.Install.Error)
		}
	}
	for _, h := range hosts {
		if _, begun := h.Install.Current(); !begun && !h.Install.Complete && (h.Trouble != "" || h.Power == PowerOff) {
			return h.Name + " " + h.Doing()
		}
	}
	for _, h := range hosts {
		if !h.Install.Complete {
			return h.Name + " " + h.Doing()
		}
	}
	return "all hosts report that they are ready"
}
