package pacemaker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// read returns what a host saw in a case.
func read(t *testing.T, dir string) pacemakerstatus.Input {
	t.Helper()
	in := pacemakerstatus.Input{Host: filepath.Base(dir)}
	text, err := os.ReadFile(filepath.Join(dir, "crm_mon.xml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := crmmon.Parse(text, time.UTC)
	switch {
	case err == nil:
		in.Cluster = state.Known(c)
	case errors.Is(err, crmmon.ErrNotRunning):
		in.Trouble = err.Error()
	default:
		t.Fatalf("%s: %v", dir, err)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "corosync.conf")); err == nil {
		conf, err := corosync.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		in.Corosync = state.Known(conf)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "etcd.json")); err == nil {
		var r state.EtcdReport
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		in.Etcd = state.Known(r)
	}
	return in
}

// TestEveryRecordedStateHasItsStatus compares the status of each case with the
// one that a person has approved.
func TestEveryRecordedStateHasItsStatus(t *testing.T) {
	dirs, err := filepath.Glob("cases/*/*")
	if err != nil || len(dirs) < 100 {
		t.Fatalf("%d recorded views, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		name := strings.TrimPrefix(dir, "cases/")
		t.Run(name, func(t *testing.T) {
			in := read(t, dir)
			golden.Check(t, filepath.Join("..", dir, "status.txt"), []byte(text(in)))
		})
	}
}

// text formats a status for reading: conditions that hold in one line, the
// others in one line each.
func text(in pacemakerstatus.Input) string {
	s := pacemakerstatus.Status(in)
	var out strings.Builder
	writes, why := pacemakerstatus.Writes(in, 0)
	fmt.Fprintf(&out, "writes: %v, %s\ncluster\n%s", writes, why, list("  ", s.Conditions))
	for _, n := range *s.Nodes {
		fmt.Fprintf(&out, "node %s %s\n%s", n.NodeName, addresses(n.Addresses), list("  ", n.Conditions))
		for _, r := range n.Resources {
			fmt.Fprintf(&out, "  resource %s\n%s", r.Name, list("    ", r.Conditions))
		}
		for _, a := range n.FencingAgents {
			fmt.Fprintf(&out, "  agent %s %s\n%s", a.Name, a.Method, list("    ", a.Conditions))
		}
	}
	return out.String()
}

func addresses(list []etcdv1.PacemakerNodeAddress) string {
	var out []string
	for _, a := range list {
		out = append(out, a.Address)
	}
	return strings.Join(out, " ")
}

func list(indent string, conditions []metav1.Condition) string {
	var good []string
	var bad strings.Builder
	for _, c := range conditions {
		if c.Status == metav1.ConditionTrue && c.Message == "" && c.Type == c.Reason {
			good = append(good, c.Type)
			continue
		}
		fmt.Fprintf(&bad, "%s%s %s %s", indent, c.Type, c.Status, c.Reason)
		if c.Message != "" {
			fmt.Fprintf(&bad, ": %s", c.Message)
		}
		bad.WriteString("\n")
	}
	if len(good) > 0 {
		return indent + strings.Join(good, " ") + "\n" + bad.String()
	}
	return bad.String()
}
